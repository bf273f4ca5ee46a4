"""Take the fleet's snapshot, at most once a second, for /metrics, the JSON API and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.metrics.subject import ENGINE
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMonitor
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.request_receiver import RequestReceiver
from spec_decode_exporter.monitor.snapshot import ExporterStatus, Snapshot
from spec_decode_exporter.views.fleet_view import TargetView, target_view
from spec_decode_exporter.views.history import Histories

_SLICE: Final = 32
"""Engines between two yields to the event loop: less than a millisecond of work."""


class FleetSnapshots:
    """Collects the snapshots of engines, experiments, requests and the exporter."""

    def __init__(
        self,
        fleet: Fleet,
        experiments: ExperimentMonitor,
        receiver: RequestReceiver,
        events: EventLog,
        clock: Clock,
        *,
        status: Callable[[], ExporterStatus],
        errors: Isolation | None = None,
    ) -> None:
        self._errors = errors or Isolation(clock.monotonic)
        self._fleet = fleet
        self._experiments = experiments
        self._receiver = receiver
        self._events = events
        self._clock = clock
        self._status = status
        self._numbers = count(1)

    async def take(self) -> Snapshot:
        """Take a snapshot of the fleet.

        It evaluates nothing: the values of an engine are those of its last evaluation, its counters those of
        the newest poll.
        """
        last_event = self._events.last
        requests = await self._receiver.findings()
        engines: list[tuple[Mapping[str, str], EngineSnapshot]] = []
        pace = Pace(_SLICE)
        for engine in self._fleet.engines():
            engines.append(engine)
            await pace.done()
        names = self._own_labels()
        # All series of a metric have the same label names; a target without such a label has it empty.
        empty = dict.fromkeys(names, "")
        return Snapshot(
            [({**empty, **labels}, snapshot) for labels, snapshot in engines],
            list(self._fleet.each("targets", lambda each: ({**empty, **each.labels}, each.status()))),
            list(self._errors.each("exporter", [self._status], lambda _: {}, lambda status: ({}, status()))),
            list(self._experiments.findings()),
            last_event,
            requests,
            number=next(self._numbers),
        )

    def labels(self) -> list[str]:
        """Return the names of the labels that engines have."""
        return [*ENGINE.labels, *self._own_labels()]

    def windows(self) -> list[str]:
        """Return the configured windows, as in the label ``window``."""
        return [format_duration(length) for length in self._fleet.config.windows]

    def receiver(self) -> RequestReceiver | None:
        """Return the receiver of single requests; None if the configuration disables it."""
        return self._receiver if self._receiver.is_open else None

    def targets(self) -> list[TargetView]:
        """Return the view of every target."""
        return list(self._fleet.each("targets", lambda monitor: target_view(monitor.status())))

    def _own_labels(self) -> list[str]:
        """Return the names of all labels of targets."""
        return sorted({name for monitor in self._fleet for name, _ in monitor.target.labels})

    def histories(self) -> Histories:
        """Return the longest window of every engine."""
        offset = self._clock.wall() - self._clock.monotonic()
        engines = [engine for monitor in self._fleet for engine in monitor.histories()]
        return Histories(offset, self._fleet.config.windows[-1], engines)
