"""The ring of events: identifiers, bounds, and what a reader who fell behind is told."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.event_log import EventLog, UnknownEventError

WALL = 1_790_000_000.0


def filled(number, most=5, run="a1"):
    """A ring into which so many events went."""
    log = EventLog(run, most)
    for n in range(1, number + 1):
        log.record(Event("engine_reset", {"n": n}), WALL + n, "one", ("m", "0"))
    return log


def numbers(since):
    return [event.fields["n"] for event in since.events]


def test_an_event_is_kept_as_it_is_logged():
    log = EventLog("a1")
    with capture_logs() as lines:
        log.record(
            Event("acceptance_dropped", {"kind": "sudden", "seconds": 5.5}, is_bad=True),
            WALL,
            "one",
            ("m", "0"),
        )
    (event,) = log.since().events
    assert asdict(event) == {
        "id": "a1-1",
        "time": WALL,
        "type": "acceptance_dropped",
        "bad": True,
        "target": "one",
        "model_name": "m",
        "engine": "0",
        "fields": {"kind": "sudden", "seconds": 5.5},
    }
    assert lines == [
        {
            "event": event.type,
            "log_level": "warning",
            "event_id": event.id,
            "target": "one",
            "model_name": "m",
            "engine": "0",
            **event.fields,
        }
    ]


def test_an_event_of_a_target_has_no_engine():
    log = EventLog("a1")
    with capture_logs() as lines:
        log.record(Event("target_recovered", {"failed_polls": 3}), WALL, "one")
    (event,) = log.since().events
    assert (event.model_name, event.engine) == (None, None)
    line = {"event_id": "a1-1", "target": "one", "failed_polls": 3}
    assert lines == [{"event": "target_recovered", "log_level": "info", **line}]


def test_lists_are_kept_and_what_json_cannot_hold_is_written_out():
    log = EventLog("a1")
    log.record(Event("check_broken", {"numbers": [1, 2], "odd": {1}, "nothing": None}), WALL, "one")
    (event,) = log.since().events
    assert event.fields == {"numbers": (1, 2), "odd": "{1}", "nothing": None}


def test_the_text_of_a_defect_of_ours_stays_in_the_log():
    log = EventLog("a1")
    error = ValueError("password=secret")
    log.record(
        Event("analysis_failed", {"part": "evaluation", "error": repr(error), "exc_info": error}), WALL, "one"
    )
    assert log.since().events[0].fields == {"part": "evaluation"}


def test_only_the_newest_are_kept():
    assert numbers(filled(8).since()) == [4, 5, 6, 7, 8]


def test_a_reader_gets_what_came_after_the_event_it_names():
    since = filled(8).since("a1-6")
    assert (numbers(since), since.gap, since.last) == ([7, 8], False, "a1-8")


def test_a_reader_who_has_seen_all_gets_nothing():
    since = filled(8).since("a1-8")
    assert (numbers(since), since.gap, since.last) == ([], False, "a1-8")


def test_a_reader_from_the_beginning_of_an_empty_ring_misses_nothing():
    log = EventLog("a1")
    assert log.last == "a1-0"
    assert log.since("a1-0").gap is False
    log.record(Event("engine_reset", {"n": 1}), WALL, "one")
    assert numbers(log.since("a1-0")) == [1]


@pytest.mark.parametrize(("identifier", "gap"), [("a1-3", False), ("a1-2", True), ("a1-0", True)])
def test_a_reader_who_fell_behind_is_told(identifier, gap):
    since = filled(8).since(identifier)
    assert (numbers(since), since.gap) == ([4, 5, 6, 7, 8], gap)


def test_an_event_of_an_earlier_run_is_a_gap_and_all_is_given():
    since = filled(3, run="a2").since("a1-7")
    assert (numbers(since), since.gap, since.last) == ([1, 2, 3], True, "a2-3")


def test_an_event_that_is_still_to_come_is_taken_for_the_newest():
    assert numbers(filled(3).since("a1-99")) == []


@pytest.mark.parametrize(
    "identifier", ["", "3", "a1-", "a1-x", "-3", "a1-3 ", "A1-3", "a1-३", "a1-" + "9" * 16]
)
def test_what_is_no_identifier_is_refused(identifier):
    with pytest.raises(UnknownEventError, match="is not the id of an event"):
        filled(3).since(identifier)


@given(number=st.integers(0, 40), most=st.integers(1, 10), seen=st.integers(0, 40))
def test_whoever_asks_again_and_again_gets_each_event_once_or_is_told_of_a_gap(number, most, seen):
    log, seen = filled(number, most), min(seen, number)
    since = log.since(f"a1-{seen}")
    assert numbers(since) == list(range(max(seen, number - most) + 1, number + 1))
    assert since.gap == (seen < number - most)
    assert log.since(since.last).events == ()


async def test_a_reader_waits_for_the_next_event(until):
    log = filled(3)
    waiting = [asyncio.ensure_future(log.beyond("a1-3")) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    log.record(Event("engine_reset"), WALL, "one")
    await until(lambda: all(task.done() for task in waiting))


async def test_a_reader_who_is_behind_does_not_wait():
    await filled(3).beyond("a1-2")


async def test_nobody_waits_for_a_ring_that_is_closed(until):
    log = filled(3)
    waiting = asyncio.ensure_future(log.beyond("a1-3"))
    await asyncio.sleep(0)
    log.close()
    await until(waiting.done)
    assert log.closed
    await log.beyond("a1-3")


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
