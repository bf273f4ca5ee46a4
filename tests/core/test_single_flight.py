from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.core.background_tasks import cancel
from spec_decode_exporter.core.single_flight import SHARED_SECONDS, SingleFlight
from tests.conftest import settle


class Work:
    """Work that is done when it is let go on."""

    def __init__(self):
        self.begun, self.going = 0, asyncio.Semaphore(0)

    async def __call__(self):
        self.begun += 1
        await self.going.acquire()


@pytest.fixture
def work():
    return Work()


async def asking(together, number):
    tasks = [asyncio.create_task(together()) for _ in range(number)]
    await settle()
    return tasks


async def test_calls_within_a_second_share_one_execution(work, clock):
    together = SingleFlight(work, clock.monotonic)
    first = await asking(together, 1)
    clock.now += SHARED_SECONDS / 2
    others = await asking(together, 16)
    work.going.release()
    assert set(await asyncio.gather(*first, *others)) == {1}
    clock.now += 0.49 * SHARED_SECONDS
    assert await together() == 1
    assert work.begun == 1


async def test_a_call_more_than_a_second_after_the_beginning_has_the_work_executed_again(work, clock):
    together = SingleFlight(work, clock.monotonic)
    for number in (1, 2, 3):
        work.going.release()
        assert await together() == number
        clock.now += SHARED_SECONDS
    assert work.begun == 3


async def test_work_that_takes_long_is_shared_for_twice_as_long_as_it_took(work, clock):
    together = SingleFlight(work, clock.monotonic)
    [first] = await asking(together, 1)
    clock.now += 3.0
    work.going.release()
    await first
    clock.now += 2.9
    assert await together() == 1
    clock.now += 0.2
    work.going.release()
    assert await together() == 2


async def test_who_goes_away_leaves_it_to_the_others(work, clock):
    together = SingleFlight(work, clock.monotonic)
    [first] = await asking(together, 1)
    others = await asking(together, 2)
    await cancel([first])
    work.going.release()
    await asyncio.gather(*others)
    assert work.begun == 2


async def test_what_fails_is_tried_again_for_the_next(work, clock):
    failing = [ValueError("once")]

    async def fails_once():
        await asyncio.sleep(0)  # the others ask
        if failing:
            raise failing.pop()
        await work()

    together = SingleFlight(fails_once, clock.monotonic)
    work.going.release()
    first, second, third = await asking(together, 3)
    with pytest.raises(ValueError, match="once"):
        await first
    await asyncio.gather(second, third)
    assert work.begun == 1


async def test_what_is_forgotten_is_executed_again_also_while_it_is_under_way(work, clock):
    together = SingleFlight(work, clock.monotonic)
    [first] = await asking(together, 1)
    together.forget()
    work.going.release(), work.going.release()
    assert await first == 1
    assert await together() == 2
    together.forget()
    work.going.release()
    assert await together() == 3
