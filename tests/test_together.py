from __future__ import annotations

import asyncio

import pytest

from exporter.tasks import cancel
from exporter.together import Together
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


async def test_who_asks_while_it_is_done_waits_for_the_next_time_which_is_the_same_for_all(work):
    together = Together(work)
    [first] = await asking(together, 1)
    others = await asking(together, 16)
    assert work.begun == 1
    work.going.release()
    await first
    await settle(50)
    assert work.begun == 2
    assert not any(task.done() for task in others)
    work.going.release()
    await asyncio.gather(*others)
    assert work.begun == 2


async def test_who_asks_later_has_it_done_again(work):
    together = Together(work)
    for times in (1, 2, 3):
        work.going.release()
        await together()
        assert work.begun == times


async def test_who_goes_away_leaves_it_to_the_others(work):
    together = Together(work)
    [first] = await asking(together, 1)
    others = await asking(together, 2)
    await cancel([first])
    work.going.release()
    await asyncio.gather(*others)
    assert work.begun == 2


async def test_what_fails_is_tried_again_for_the_next(work):
    failing = [ValueError("once")]

    async def fails_once():
        await asyncio.sleep(0)  # the others ask
        if failing:
            raise failing.pop()
        await work()

    together = Together(fails_once)
    work.going.release()
    first, second, third = await asking(together, 3)
    with pytest.raises(ValueError, match="once"):
        await first
    await asyncio.gather(second, third)
    assert work.begun == 1
