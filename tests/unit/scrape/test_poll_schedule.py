"""When targets are polled: shared ticks, permits of costly polls, and longer intervals of costly targets."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.poller import (
    COSTLY_SHARE,
    MAX_WINDOW_SHARE,
    PERMITS,
    TARGET_SHARE,
    DutyCycle,
    PollSchedule,
    next_tick,
    phase,
)
from tests.conftest import settle

intervals = st.sampled_from([0.1, 0.25, 0.7, 1.0, 1.5, 5.0, 60.0])
offsets = st.floats(0, 1, exclude_max=True)
EARLY = 0.002
"""Seconds by which a timer may fire early; uvloop's fire up to a millisecond early."""


# Ticks.


def test_phases_are_stable_and_spread_evenly():
    phases = Counter(phase(f"http://vllm-{number}:8000/metrics") for number in range(6400))
    assert sorted(phases) == [moment / 64 for moment in range(64)]
    assert all(50 < count < 170 for count in phases.values())


@given(
    st.floats(0, 1e8), intervals, offsets, st.lists(st.floats(-0.9 * EARLY, 0.09), min_size=2, max_size=50)
)
def test_ticks_are_one_interval_apart_and_unique_in_spite_of_jitter(start, interval, offset, jitters):
    ticks = [next_tick(start, interval, offset)]
    assert start < ticks[0] <= start + interval + EARLY + 1e-6
    assert abs((ticks[0] / interval - offset + 0.5) % 1 - 0.5) < 1e-6
    for jitter in jitters:
        ticks.append(next_tick(ticks[-1] + jitter, interval, offset))
    assert all(after - before == pytest.approx(interval, rel=1e-6) for before, after in pairwise(ticks))


@pytest.fixture
def schedule(clock):
    return PollSchedule(clock)


async def test_all_that_wait_for_a_moment_share_one_timer_and_wake_in_order(schedule, clock):
    woken = []

    async def wait(name, moment):
        await schedule.sleep_until(moment)
        woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(wait(name, 1001.0 - name % 2 / 2)) for name in range(100)]
    await settle()
    assert clock.asleep == 2
    tasks[3].cancel()
    await clock.advance(1.0)
    odd, even = range(1, 100, 2), range(0, 100, 2)
    assert woken == [*((name, 1000.5) for name in odd if name != 3), *((name, 1001.0) for name in even)]


# Permits.


async def test_all_permits_can_be_used_at_once_and_no_more(schedule):
    async with AsyncExitStack() as stack:
        for _ in range(PERMITS):
            await stack.enter_async_context(schedule.permit(lambda: 0.0))
        waiting = asyncio.create_task(stack.enter_async_context(schedule.permit(lambda: 0.0)))
        await settle()
        assert not waiting.done()
        waiting.cancel()
    async with schedule.permit(lambda: 0.0):
        pass


async def test_costly_polls_take_no_more_than_their_share_of_a_core_also_if_they_fail(schedule, clock):
    async def again_and_again():
        spent = [0.0]
        while True:
            with suppress(OSError):
                async with schedule.permit(lambda: spent[0]):
                    await clock.sleep_until(clock.monotonic() + 0.1)
                    spent[0] += 0.1
                    clock.used += 0.1
                    raise OSError

    tasks = [asyncio.create_task(again_and_again()) for _ in range(10)]
    await clock.advance(100)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert clock.used == pytest.approx(COSTLY_SHARE * 100, rel=0.1)


@pytest.mark.parametrize(
    ("share", "targets", "is_costly"),
    [(0.0006, 10_000, False), (0.001, 400, False), (0.001, 600, True), (0.4, 1, False), (0.4, 2, True)],
)
def test_a_target_is_costly_if_it_takes_more_than_an_even_part_of_half_a_core(
    schedule, share, targets, is_costly
):
    schedule.targets = targets
    assert schedule.is_costly(share) == is_costly


# Longer intervals.


def test_the_shortest_response_of_the_last_minute_or_two_counts():
    duty = DutyCycle(1.0, 0.01, 3600.0)
    for now, seconds, ticks in [(0, 0.5, 50), (30, 0.02, 2), (59, 9.0, 2), (61, 9.0, 2), (119, 0.5, 2),
                                (121, 0.9, 50), (400, 0.3, 30)]:  # fmt: skip
        duty.answered(now, seconds)
        assert duty.ticks(0.0)[0] == ticks


@given(intervals, st.floats(0.001, 1), st.floats(0.1, 3600), st.floats(0, 100), st.floats(0, 100))
def test_the_interval_is_at_most_a_sixth_of_the_shortest_window(interval, share, window, seconds, cost):
    duty = DutyCycle(interval, share, window)
    duty.answered(0.0, seconds)
    ticks, cause = duty.ticks(cost)
    assert 1 <= ticks <= max(1, window * MAX_WINDOW_SHARE / interval + 1e-3)
    assert (cause is None) == (ticks == 1)


@pytest.mark.parametrize(
    ("seconds", "cost", "waited", "expected"),
    [
        *((seconds, 0.0, 0.0, (ticks, "answers" if ticks > 1 else None))
          for seconds, ticks in ((0.0, 1), (0.01, 1), (0.0101, 2), (0.02, 2), (0.025, 3), (9.0, 100))),
        (0.001, 0.5 * TARGET_SHARE, 0.0, (1, None)),
        (0.001, 4 * TARGET_SHARE, 0.0, (4, "processing")),
        (0.05, 4 * TARGET_SHARE, 0.0, (5, "answers")),
        (0.05, 10 * TARGET_SHARE, 0.0, (10, "processing")),
        (0.05, 0.0, 0.5, (5, "answers")),
        (0.05, 0.0, 9.5, (10, "processing")),
        (0.001, 0.0, 1e9, (61, "processing")),
    ],
)  # fmt: skip
def test_the_interval_and_its_cause_are_those_of_what_takes_more_than_its_share(
    seconds, cost, waited, expected
):
    duty = DutyCycle(1.0, 0.01, 600.0)
    duty.answered(0.0, seconds)
    duty.waited = waited
    assert duty.ticks(cost) == expected
