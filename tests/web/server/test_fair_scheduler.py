"""Pages among polls, by a clock that is the processor's time: whoever works moves it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from spec_decode_exporter.core.background_tasks import cancel
from spec_decode_exporter.web.server.fair_scheduler import LARGE_SHARE, FairScheduler

POLL = 0.0009
"""Seconds of the processor that a poll takes."""


class Processor:
    """Counts what each kind of work takes; a program that is starved has no other time."""

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
    """A function that lets so many polls be ready in every round of the event loop."""
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
async def test_a_page_is_done_though_polls_are_always_ready(processor, starved, polls):
    starved(polls)
    assert await FairScheduler(processor).run(page(processor, 600)) == 600
    # A third of the time is for pages; with more polls in a round than 100 ms, 50 ms of each round.
    assert processor.now < 0.6 + 0.6 * max(2, polls * POLL / 0.05) + 2 * polls * POLL
    assert processor.longest < 0.052


async def test_many_pages_have_no_more_time_together_than_one(processor, starved):
    starved(400)
    turns = FairScheduler(processor)
    await asyncio.gather(*(turns.run(page(processor, 100)) for _ in range(16)))
    assert processor.longest < 0.05 + 16 * 0.0011


async def test_polls_keep_their_share_beside_metrics_and_large_pages(processor, starved):
    starved(50)
    metrics, large = FairScheduler(processor), FairScheduler(processor, LARGE_SHARE)
    pages = [metrics.run(page(processor, 300)), *(large.run(page(processor, 75)) for _ in range(4))]
    await asyncio.gather(*pages)
    assert processor.now > 2 * 0.6  # the rest is that of the polls


@pytest.mark.parametrize(("steps", "seconds", "rounds"), [(100, 0.001, 99), (1000, 0.00001, 9)])
async def test_with_time_to_spare_everything_has_its_turn_every_millisecond(
    processor, steps, seconds, rounds
):
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


async def test_what_it_waits_for_is_waited_for_and_given_to_it():
    answer = asyncio.get_running_loop().create_future()

    async def work():
        return await answer

    asking = asyncio.create_task(FairScheduler().run(work()))
    await asyncio.sleep(0)
    answer.set_result("here")
    assert await asking == "here"


async def test_what_fails_fails():
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("so")

    with pytest.raises(ValueError, match="so"):
        await FairScheduler().run(fails())


@pytest.mark.parametrize("waits", [0, 3600])
async def test_what_is_cancelled_may_clean_up(waits):
    cleaned = []

    async def work():
        try:
            await asyncio.sleep(waits)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(1)

    turns = FairScheduler(lambda: 0.0)
    task = asyncio.create_task(turns.run(work()))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert cleaned == [1]
