from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.core.batched import PAUSE_SECONDS, Batched
from tests.conftest import settle
from tests.core.test_single_flight import Work


@pytest.fixture
def work():
    return Work()


async def asking(batched, number):
    tasks = [asyncio.create_task(batched()) for _ in range(number)]
    await settle()
    return tasks


async def test_calls_that_come_before_the_work_begins_share_one_execution(work, clock):
    batched = Batched(work, clock)
    first = await asking(batched, 1)
    others = await asking(batched, 40)
    work.going.release()
    await asyncio.gather(*first)
    assert work.begun == 1
    work.going.release()
    await clock.advance(PAUSE_SECONDS)
    await asyncio.gather(*others)
    assert work.begun == 2


async def test_a_call_never_gets_the_result_of_work_that_began_before_it(work, clock):
    batched = Batched(work, clock)
    first = await asking(batched, 1)
    second = await asking(batched, 1)
    work.going.release()
    await asyncio.gather(*first)
    await clock.advance(PAUSE_SECONDS)
    assert not second[0].done()
    work.going.release()
    await asyncio.gather(*second)


async def test_however_many_call_the_work_is_done_once_a_second(work, clock):
    batched = Batched(work, clock)
    for _ in range(1000):
        work.going.release()
    tasks = []
    for _ in range(100):
        tasks += await asking(batched, 10)
        await clock.advance(0.1)
    assert work.begun <= 1 + 10 / PAUSE_SECONDS
    await clock.advance(PAUSE_SECONDS)
    await asyncio.gather(*tasks)


async def test_an_error_is_raised_where_it_is_waited_for_and_the_next_call_tries_again(clock):
    results = [ValueError("a mistake"), None]

    async def work():
        if (result := results.pop(0)) is not None:
            raise result

    batched = Batched(work, clock)
    with pytest.raises(ValueError, match="a mistake"):
        await batched()
    (task,) = await asking(batched, 1)
    await clock.advance(PAUSE_SECONDS)
    await task
    assert not results


async def test_a_caller_that_is_gone_stops_nothing_for_the_others(work, clock):
    batched = Batched(work, clock)
    gone, stays = await asking(batched, 2)
    gone.cancel()
    work.going.release()
    await stays
    assert gone.cancelled()


async def test_nothing_is_left_when_it_is_closed(work, clock):
    batched = Batched(work, clock)
    tasks = [*await asking(batched, 1), *await asking(batched, 1)]
    await batched.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
