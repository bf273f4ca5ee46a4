from __future__ import annotations

from dataclasses import replace

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.views.engine_view import engine_id
from spec_decode_exporter.views.event_view import event_view
from spec_decode_exporter.views.models import EventView

WALL = 1_790_000_000.0


def recorded(event, *subject):
    log = EventLog("a1")
    log.record(event, WALL, *subject)
    return log.since().events[0]


def test_an_event_of_an_engine_has_its_id():
    event = Event("acceptance_dropped", {"kind": "sudden", "seconds": 5.5}, is_bad=True)
    assert event_view(recorded(event, "one", ("m", "0"))) == EventView(
        id="a1-1",
        time=WALL,
        type="acceptance_dropped",
        bad=True,
        target="one",
        model_name="m",
        engine="0",
        engine_id=engine_id("one", "m", "0"),
        fields={"kind": "sudden", "seconds": 5.5},
    )


def test_an_event_of_a_target_has_no_engine():
    view = event_view(recorded(Event("target_recovered", {"failed_polls": 3}), "one"))
    assert (view.model_name, view.engine, view.engine_id) == (None, None, None)


def test_the_fields_survive_json():
    view = event_view(
        recorded(Event("check_broken", {"numbers": [1, 2], "odd": {1}, "nothing": None}), "one")
    )
    assert view.fields == {"numbers": (1, 2), "odd": "{1}", "nothing": None}
    assert EventView.model_validate_json(view.model_dump_json()) == view


def test_an_event_is_converted_once_for_all_readers():
    event = recorded(Event("engine_reset"), "one")
    assert event_view(event) is event_view(event)
    assert event_view(replace(event)) is not event_view(event), "equal events of two logs are two"
