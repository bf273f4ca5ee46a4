"""Snapshots of the fleet."""

from __future__ import annotations

from spec_decode_exporter.app.fleet_snapshot import FleetSnapshots
from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMonitor
from spec_decode_exporter.monitor.request_receiver import RequestReceiver


class Fleet:
    """Stands in for a fleet with no engines, to one of which something happens while it is asked."""

    def __init__(self, events):
        self.events = events

    def __iter__(self):
        return iter(())

    def each(self, _part, work):
        return map(work, self)

    def engines(self):
        self.events.record(Event("engine_reset", {"cause": "restart"}), 0.0, "one", ("m", "0"))
        return iter(())


async def test_events_during_a_snapshot_come_after_its_last_event(clock):
    events = EventLog("a1")
    events.record(Event("target_recovered", {"failed_polls": 1}), 0.0, "one")
    fleet = Fleet(events)
    overview = FleetSnapshots(
        fleet,
        ExperimentMonitor(),
        RequestReceiver(RequestSettings(), fleet, events, clock),
        events,
        clock,
        status=lambda: None,
    )
    taken = await overview.take()
    assert taken.last_event == "a1-1"
    assert [event.id for event in events.since(taken.last_event).events] == ["a1-2"]
