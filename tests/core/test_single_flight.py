from __future__ import annotations

import asyncio
from weakref import ref

import pytest

from spec_decode_exporter.core.background_tasks import cancel
from spec_decode_exporter.core.single_flight import PAUSE_SECONDS, SHARED_SECONDS, Batched, SingleFlight
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


async def test_calls_within_a_second_share_one_execution(work, clock):
    flight = SingleFlight(work, clock.monotonic)
    first = await calls(flight, 1)
    clock.now += SHARED_SECONDS / 2
    others = await calls(flight, 16)
    work.going.release()
    assert set(await asyncio.gather(*first, *others)) == {1}
    clock.now += 0.49 * SHARED_SECONDS
    assert await flight() == 1
    assert work.begun == 1


async def test_a_call_a_second_after_the_beginning_executes_the_work_again(work, clock):
    flight = SingleFlight(work, clock.monotonic)
    for number in (1, 2, 3):
        work.going.release()
        assert await flight() == number
        clock.now += SHARED_SECONDS
    assert work.begun == 3


async def test_a_long_execution_is_shared_for_twice_its_duration(work, clock):
    flight = SingleFlight(work, clock.monotonic)
    [first] = await calls(flight, 1)
    clock.now += 3.0
    work.going.release()
    await first
    clock.now += 2.9
    assert await flight() == 1
    clock.now += 0.2
    work.going.release()
    assert await flight() == 2


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


async def test_calls_before_an_execution_begins_share_it(work, clock):
    batched = Batched(work, clock)
    first = await calls(batched, 1)
    others = await calls(batched, 40)
    work.going.release()
    await asyncio.gather(*first)
    assert work.begun == 1
    work.going.release()
    await clock.advance(PAUSE_SECONDS)
    await asyncio.gather(*others)
    assert work.begun == 2


async def test_a_call_waits_for_an_execution_that_begins_after_it(work, clock):
    batched = Batched(work, clock)
    first = await calls(batched, 1)
    second = await calls(batched, 1)
    work.going.release()
    await asyncio.gather(*first)
    await clock.advance(PAUSE_SECONDS)
    assert not second[0].done()
    work.going.release()
    await asyncio.gather(*second)


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


async def test_an_error_is_raised_to_the_caller_and_the_next_call_tries_again(clock):
    results = [ValueError("a mistake"), None]

    async def work():
        if (result := results.pop(0)) is not None:
            raise result

    batched = Batched(work, clock)
    with pytest.raises(ValueError, match="a mistake"):
        await batched()
    (task,) = await calls(batched, 1)
    await clock.advance(PAUSE_SECONDS)
    await task
    assert not results


async def test_a_cancelled_caller_of_a_batch_does_not_stop_the_others(work, clock):
    batched = Batched(work, clock)
    gone, stays = await calls(batched, 2)
    gone.cancel()
    work.going.release()
    await stays
    assert gone.cancelled()


async def test_close_cancels_all_calls(work, clock):
    batched = Batched(work, clock)
    tasks = [*await calls(batched, 1), *await calls(batched, 1)]
    await batched.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)


async def test_a_result_is_freed_before_the_next_one_is_made(clock):
    class Result:
        """Something large."""

    alive = []

    async def work():
        alive.append([reference() is not None for reference in results])
        results.append(ref(result := Result()))
        return result

    results = []
    flight = SingleFlight(work, clock.monotonic)
    for _ in range(2):
        await flight()
        clock.now += SHARED_SECONDS
    assert alive == [[], [False]]
