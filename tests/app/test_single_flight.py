from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.app.single_flight import PAUSE_SECONDS, Batched, SingleFlight
from spec_decode_exporter.core.tasks import cancel
from tests.conftest import settle


class Work:
    """Work that ends when it is released."""

    def __init__(self):
        self.begun, self.going = 0, asyncio.Semaphore(0)

    async def __call__(self):
        self.begun += 1
        number = self.begun
        await self.going.acquire()
        return number


@pytest.fixture
def work():
    return Work()


async def calls(flight, number):
    tasks = [asyncio.create_task(flight()) for _ in range(number)]
    await settle()
    return tasks


async def test_a_cancelled_caller_leaves_the_execution_to_the_others(work, clock):
    flight = SingleFlight(work, clock.monotonic)
    [first] = await calls(flight, 1)
    others = await calls(flight, 2)
    await cancel([first])
    work.going.release()
    await asyncio.gather(*others)
    assert work.begun == 2


async def test_a_failed_execution_is_repeated_for_the_next_caller(work, clock):
    failing = [ValueError("once")]

    async def fails_once():
        await asyncio.sleep(0)  # the others ask
        if failing:
            raise failing.pop()
        await work()

    flight = SingleFlight(fails_once, clock.monotonic)
    work.going.release()
    first, second, third = await calls(flight, 3)
    with pytest.raises(ValueError, match="once"):
        await first
    await asyncio.gather(second, third)
    assert work.begun == 1


async def test_a_forgotten_execution_is_repeated_also_if_it_is_under_way(work, clock):
    flight = SingleFlight(work, clock.monotonic)
    [first] = await calls(flight, 1)
    flight.forget()
    work.going.release(), work.going.release()
    assert await first == 1
    assert await flight() == 2
    flight.forget()
    work.going.release()
    assert await flight() == 3


async def test_any_number_of_calls_causes_one_execution_a_second(work, clock):
    batched = Batched(work, clock)
    for _ in range(1000):
        work.going.release()
    tasks = []
    for _ in range(100):
        tasks += await calls(batched, 10)
        await clock.advance(0.1)
    assert work.begun <= 1 + 10 / PAUSE_SECONDS
    await clock.advance(PAUSE_SECONDS)
    await asyncio.gather(*tasks)


async def test_close_cancels_all_calls(work, clock):
    batched = Batched(work, clock)
    tasks = [*await calls(batched, 1), *await calls(batched, 1)]
    await batched.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
