from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.core.cooperative_yield import (
    Meter,
    Pace,
    cooperatively,
    finish,
    yield_to_event_loop,
)


def counting(done, pauses):
    """Return work with a number of pauses that notes its steps."""
    for number in range(pauses):
        done.append(number)
        yield
    return "done"


def test_work_can_be_done_without_a_pause():
    done = []
    assert finish(counting(done, 3)) == "done"
    assert done == [0, 1, 2]


async def test_other_tasks_run_at_every_pause():
    done = []
    work = asyncio.ensure_future(cooperatively(counting(done, 3)))
    for turn in range(3):
        await asyncio.sleep(0)
        assert len(done) == turn + 1
    assert await work == "done"


async def test_work_without_a_pause_does_not_yield():
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    assert await cooperatively(counting([], 0)) == "done"
    assert not turns


async def test_a_yield_lets_ready_tasks_run_once():
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await yield_to_event_loop()
    assert turns == [1]


async def test_a_pace_yields_after_each_amount_of_work():
    turns, pace = [], Pace(10)

    async def count():
        while True:
            turns.append(len(turns))
            await asyncio.sleep(0)

    counting_task = asyncio.ensure_future(count())
    yields = []
    for units in (4, 5, 1, 9, 25, 1):
        before = len(turns)
        await pace.done(units)
        yields.append(len(turns) - before)
    counting_task.cancel()
    assert yields == [0, 0, 1, 0, 1, 0]


async def test_an_error_of_the_work_is_raised():
    def failing():
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await cooperatively(failing())
    with pytest.raises(ValueError, match="no"):
        finish(failing())


async def test_a_meter_measures_the_work_and_not_other_tasks_in_its_pauses():
    used = [0.0]

    def work(seconds, pauses):
        for _ in range(pauses):
            used[0] += seconds
            yield
        return "done"

    meter = Meter(lambda: used[0])
    both = asyncio.gather(meter.measured(work(1.0, 5)), cooperatively(work(100.0, 5)))
    assert await both == ["done", "done"]
    assert meter.seconds == 5.0


async def test_a_meter_counts_work_that_fails():
    used = [0.0]

    def work():
        used[0] += 2.0
        yield
        used[0] += 3.0
        raise ZeroDivisionError

    meter = Meter(lambda: used[0])
    with pytest.raises(ZeroDivisionError):
        await meter.measured(work())
    assert meter.seconds == 5.0
