"""Event log: identifiers, limits, and gaps of slow readers."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.event_log import EventLog, UnknownEventError

WALL = 1_790_000_000.0


def filled(number, most=5, run="a1"):
    """Event log with ``number`` events."""
    log = EventLog(run, most)
    for n in range(1, number + 1):
        log.record(Event("engine_reset", {"n": n}), WALL + n, "one", ("m", "0"))
    return log


def numbers(since):
    return [event.fields["n"] for event in since.events]


@pytest.mark.parametrize(
    "identifier", ["", "3", "a1-", "a1-x", "-3", "a1-3 ", "A1-3", "a1-३", "a1-" + "9" * 16]
)
def test_an_invalid_identifier_is_rejected(identifier):
    with pytest.raises(UnknownEventError, match="is not the id of an event"):
        filled(3).since(identifier)


def test_an_event_that_cannot_be_kept_leaves_no_gap_and_the_next_is_kept():
    log = EventLog("a1")
    log.record(Event("engine_reset", {"cause": "restart"}), 0.0, "one")
    with capture_logs() as logs:
        log.record(Event("engine_reset", {1: "not the name of a field"}), 0.0, "one")
        log.record(Event("engine_reset", {"cause": "decrease"}), 0.0, "one")
    assert [(entry["event"], entry.get("event_id")) for entry in logs] == [
        ("internal_error", None),
        ("engine_reset", "a1-2"),
    ]
    assert [event.id for event in log.since("a1-0").events] == ["a1-1", "a1-2"]
    assert not log.since("a1-1").gap
