"""Sharing of snapshots."""

import asyncio
import weakref
from unittest.mock import AsyncMock

import pytest

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.web.state import ExporterState, paced
from tests.conftest import settle


class State(ExporterState):
    """State whose snapshots are numbers, each taken when it is released."""

    def __init__(self, clock):
        super().__init__(Fleet(Config(), Shared(clock)))
        self.begun, self.going, self.failing = 0, asyncio.Semaphore(0), []

    async def take(self):
        self.begun += 1
        number = self.begun
        await self.going.acquire()
        if self.failing:
            raise self.failing.pop()
        return number


async def readers(state, number):
    tasks = [asyncio.create_task(state.snapshot()) for _ in range(number)]
    await settle()
    return tasks


async def test_a_reader_that_goes_away_leaves_the_snapshot_to_the_others(clock):
    state = State(clock)
    [first] = await readers(state, 1)
    others = await readers(state, 2)
    await cancel([first])
    state.going.release()
    assert await asyncio.gather(*others) == [2, 2]


async def test_a_failed_snapshot_is_taken_again_for_the_next_reader(clock):
    state = State(clock)
    state.failing.append(ValueError("once"))
    first, *others = await readers(state, 3)
    state.going.release(), state.going.release()
    with pytest.raises(ValueError, match="once"):
        await first
    assert await asyncio.gather(*others) == [2, 2]


async def test_a_forgotten_snapshot_is_taken_again_also_if_it_is_under_way(clock):
    state = State(clock)
    [first] = await readers(state, 1)
    state.forget_snapshot()
    state.going.release(), state.going.release()
    assert await first == 1
    assert await state.snapshot() == await state.snapshot() == 2
    state.forget_snapshot()
    state.going.release()
    assert await state.snapshot() == 3


async def test_the_next_comparison_frees_a_snapshot_that_is_no_longer_shared(clock, monkeypatch):
    """It holds an evaluation of each engine, and their columns."""
    state = State(clock)
    monkeypatch.setattr(state, "take", AsyncMock(side_effect=set))
    kept = weakref.ref(await state.snapshot())
    await state.evaluate()
    assert kept() is not None
    await clock.advance(1.0)
    await state.evaluate()
    assert kept() is None


async def test_a_snapshot_is_shared_for_a_second_and_a_slow_one_for_twice_its_duration(clock):
    state = State(clock)
    for seconds, shared in ((0.1, 0.8), (3.0, 2.9)):
        [first] = await readers(state, 1)
        await clock.advance(seconds)
        state.going.release()
        number = await first
        await clock.advance(shared)
        [again] = await readers(state, 1)
        assert again.done()
        assert again.result() == number
        await clock.advance(0.2)


async def test_other_tasks_run_while_a_thousand_items_are_computed():
    turns = []

    async def count_turns():
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    assert await paced(range(1000)) == [*range(1000)]
    assert len(turns) > 50
    await cancel([other])
