"""Event log: identifiers, gaps of slow readers, their rate, and what the API must not show."""

from unittest.mock import Mock

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor import event_log
from spec_decode_exporter.monitor.event_log import EVENT_EVERY, REPEATED_AFTER, EventLog
from spec_decode_exporter.monitor.target_monitor import Shared

WALL = 1_790_000_000.0
ENGINE = {"target": "one", "model_name": "m", "engine": "0"}


@pytest.fixture
def log(clock):
    return EventLog("a1", clock.monotonic, capacity=5)


def fill(log, number, target="one"):
    for n in range(1, number + 1):
        log.record(Event("engine_reset", {"n": n}), WALL + n, {**ENGINE, "target": target})


@pytest.mark.parametrize(
    ("kept", "since", "found", "gap"),
    [
        (3, "a1-0", [1, 2, 3], False),
        (3, "a1-2", [3], False),
        (3, "a1-3", [], False),
        (3, "a1-99", [], False),
        (8, "a1-3", [4, 5, 6, 7, 8], False),
        (8, "a1-2", [4, 5, 6, 7, 8], True),
        (3, "b2-2", [1, 2, 3], True),
    ],
)
def test_a_reader_gets_the_events_after_the_last_one_and_is_told_of_a_gap(log, kept, since, found, gap):
    fill(log, kept)
    events, is_gap = log.since(since)
    assert ([event.id for event in events], is_gap) == ([f"a1-{n}" for n in found], gap)
    assert ([event.id for event in log.kept], log.last) == (
        [f"a1-{n}" for n in range(max(1, kept - 4), kept + 1)], f"a1-{kept}",
    )  # fmt: skip


@pytest.mark.parametrize(
    "identifier", ["", "3", "a1-", "a1-x", "-3", "a1-3 ", "A1-3", "a1-३", "a1-" + "9" * 16]
)
def test_an_invalid_identifier_is_rejected(log, identifier):
    fill(log, 3)
    with pytest.raises(ValueError, match="is not the id of an event"):
        log.since(identifier)


def test_an_event_has_the_same_content_in_the_log_and_for_readers(log, logs):
    fields = {"kind": "sudden", "length": 1.5, "since": "", "accepted_by_position": [3, 2]}
    log.record(Event("acceptance_dropped", fields), WALL, ENGINE)
    log.record(Event("state_changed", {"state": "unreachable"}, bad=True), WALL, {"target": "one"})
    log.record(Event("state_changed"), WALL, {"target": "two"})
    first, second, third = log.kept
    assert first.fields == fields
    assert (first.time, first.type, first.bad, first.target, first.model_name, first.engine) == (
        WALL, "acceptance_dropped", True, "one", "m", "0",
    )  # fmt: skip
    assert (second.bad, second.model_name, third.bad, third.target) == (True, None, False, "two")
    assert logs == [
        {"event": "acceptance_dropped", "log_level": "warning", "event_id": "a1-1", **ENGINE, **fields},
        {
            "event": "state_changed",
            "log_level": "warning",
            "event_id": "a1-2",
            "target": "one",
            "state": "unreachable",
        },
        {"event": "state_changed", "log_level": "info", "event_id": "a1-3", "target": "two"},
    ]


def test_there_is_a_burst_then_a_rate_and_what_it_omits_is_counted(logs, clock, monkeypatch):
    monkeypatch.setattr(event_log, "BURST", 20)
    log = EventLog("a1", clock.monotonic)
    for number in range(23):
        fill(log, 1, f"t{number}")
    assert len(logs) == 21
    omitted = logs[20]
    assert (omitted["event"], omitted["target"], omitted["omitted"], omitted["example"]) == (
        "events_omitted", "t20", 1, "engine_reset",
    )  # fmt: skip
    assert "engine" not in omitted
    clock.now += EVENT_EVERY
    fill(log, 3)
    assert [entry["event"] for entry in logs[21:]] == ["engine_reset"]
    clock.now += REPEATED_AFTER
    fill(log, 21)
    assert [entry["omitted"] for entry in logs if entry["event"] == "events_omitted"] == [1, 6]


def test_an_internal_error_of_an_engine_is_an_event_and_only_the_log_has_its_text(logs, clock):
    shared = Shared(clock)
    secret = ValueError("secret")
    shared.engine_errors.attempt("evaluation", {**ENGINE, "zone": "a"}, Mock(side_effect=secret))
    (failed,) = shared.events.kept
    assert (failed.type, failed.bad, failed.engine, failed.fields) == (
        "internal_error", True, "0", {"part": "evaluation"},
    )  # fmt: skip
    (entry,) = logs
    assert (entry["log_level"], entry["event_id"], entry["exc_info"]) == ("error", failed.id, secret)
    assert "secret" not in str(shared.events.kept)
