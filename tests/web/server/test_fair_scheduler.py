"""Pages and polls on a simulated processor, whose clock advances with their work."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from spec_decode_exporter.core.background_tasks import cancel
from spec_decode_exporter.web.server.fair_scheduler import LARGE_SHARE, FairScheduler

POLL = 0.0009
"""Seconds of the processor that a poll takes."""


class Processor:
    """Clock of processor time. It advances only while a poll or a page works."""

    def __init__(self):
        self.now = 0.0
        self.longest = 0.0
        self.since_a_poll = 0.0

    def __call__(self):
        return self.now

    def poll(self):
        self.now += POLL
        self.since_a_poll = 0.0

    def page(self, seconds):
        self.now += seconds
        self.since_a_poll += seconds
        self.longest = max(self.longest, self.since_a_poll)


@pytest.fixture
def processor():
    return Processor()


@pytest.fixture
async def starved(processor):
    """Return a function that makes ``number`` polls ready in every round of the event loop."""
    polls = []

    async def always_ready():
        while True:
            processor.poll()
            await asyncio.sleep(0)

    def starve(number):
        polls.extend(asyncio.create_task(always_ready()) for _ in range(number))

    yield starve
    await cancel(polls)


async def page(processor, slices, seconds=0.001):
    for _ in range(slices):
        processor.page(seconds)
        await asyncio.sleep(0)
    return slices


@pytest.mark.parametrize("polls", [50, 150, 400])
async def test_a_page_finishes_while_polls_are_always_ready(processor, starved, polls):
    starved(polls)
    assert await FairScheduler(processor).run(page(processor, 600)) == 600
    # Pages get a third of the time; if the polls of a round take more than 100 ms, 50 ms per round.
    assert processor.now < 0.6 + 0.6 * max(2, polls * POLL / 0.05) + 2 * polls * POLL
    assert processor.longest < 0.052


async def test_many_pages_share_the_time_of_one(processor, starved):
    starved(400)
    scheduler = FairScheduler(processor)
    await asyncio.gather(*(scheduler.run(page(processor, 100)) for _ in range(16)))
    assert processor.longest < 0.05 + 16 * 0.0011


async def test_polls_keep_their_share_beside_metrics_and_large_pages(processor, starved):
    starved(50)
    metrics, large = FairScheduler(processor), FairScheduler(processor, LARGE_SHARE)
    pages = [metrics.run(page(processor, 300)), *(large.run(page(processor, 75)) for _ in range(4))]
    await asyncio.gather(*pages)
    assert processor.now > 2 * 0.6  # polls get the rest


@pytest.mark.parametrize(("steps", "seconds", "rounds"), [(100, 0.001, 99), (1000, 0.00001, 9)])
async def test_on_an_idle_processor_other_tasks_run_every_millisecond(processor, steps, seconds, rounds):
    seen = 0

    async def looks_often():
        nonlocal seen
        while True:
            seen += 1
            await asyncio.sleep(0)

    looking = asyncio.create_task(looks_often())
    await FairScheduler(processor).run(page(processor, steps, seconds))
    await cancel([looking])
    assert rounds <= seen <= rounds + 5


async def test_an_awaited_result_is_passed_to_the_coroutine():
    answer = asyncio.get_running_loop().create_future()

    async def work():
        return await answer

    asking = asyncio.create_task(FairScheduler().run(work()))
    await asyncio.sleep(0)
    answer.set_result("here")
    assert await asking == "here"


async def test_an_exception_of_the_coroutine_is_raised():
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("so")

    with pytest.raises(ValueError, match="so"):
        await FairScheduler().run(fails())


@pytest.mark.parametrize("waits", [0, 3600])
async def test_a_cancelled_coroutine_runs_its_cleanup(waits):
    cleaned = []

    async def work():
        try:
            await asyncio.sleep(waits)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(1)

    scheduler = FairScheduler(lambda: 0.0)
    task = asyncio.create_task(scheduler.run(work()))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert cleaned == [1]
