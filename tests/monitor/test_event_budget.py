"""One target cannot fill the log, however often its state changes."""

from __future__ import annotations

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.event_budget import BURST, EVERY, SAID_AGAIN, EventBudget
from spec_decode_exporter.monitor.event_log import EventLog

RESET = Event("engine_reset", {"cause": "decrease"})


@pytest.fixture
def log():
    return EventLog("1", capacity=10 * BURST)


@pytest.fixture
def budget(log, clock):
    return EventBudget(log, clock.monotonic)


def words(log):
    return [event.type for event in log.since().events]


def test_a_burst_is_passed_on_and_the_rest_is_logged_once(budget, log, clock):
    for _ in range(BURST + 500):
        budget.record(RESET, clock.wall(), "a")
    assert words(log) == ["engine_reset"] * BURST + ["events_omitted"]
    assert dict(log.since().events[-1].fields) == {
        "omitted": 1,
        "example": "engine_reset",
        "discovery": "",
    }
    assert log.since().events[-1].target == "a"


async def test_afterwards_events_come_at_a_rate_and_the_omission_is_repeated_every_ten_minutes(
    budget, log, clock
):
    for _ in range(BURST):
        budget.record(RESET, clock.wall(), "a")
    before = len(words(log))
    for _ in range(int(2 * SAID_AGAIN)):
        await clock.advance(1, turns=0)
        for _ in range(256):
            budget.record(RESET, clock.wall(), "a")
    found = words(log)[before:]
    assert found.count("engine_reset") == pytest.approx(2 * SAID_AGAIN / EVERY, abs=1)
    assert found.count("events_omitted") == 2


async def test_a_target_that_calms_down_has_its_burst_again(budget, log, clock):
    for _ in range(2 * BURST):
        budget.record(RESET, clock.wall(), "a")
    await clock.advance(BURST * EVERY)
    before = len(words(log))
    for _ in range(BURST):
        budget.record(RESET, clock.wall(), "a", ("m", "0"))
    assert words(log)[before:] == ["engine_reset"] * BURST
    assert log.since().events[-1].engine == "0"
