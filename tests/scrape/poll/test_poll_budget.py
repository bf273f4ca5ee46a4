from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from spec_decode_exporter.scrape.poll.poll_budget import (
    COSTLY_PROCESSOR_SHARE,
    PERMITS,
    PollBudget,
)
from tests.conftest import settle


@pytest.fixture
def budget(clock):
    return PollBudget(clock, 256)


async def polled(budget, clock, used=0.0, seconds=0.0, then=None):
    """Poll with a permit; the clock adds up its processor time."""
    spent = [0.0]
    async with budget.permit(used, lambda: spent[0]):
        await clock.sleep_until(clock.monotonic() + seconds)
        spent[0] += seconds
        clock.used += seconds
        if then is not None:
            await then()


async def test_all_permits_can_be_used_concurrently_and_no_more(budget, clock):
    async with AsyncExitStack() as stack:
        for _ in range(PERMITS):
            await stack.enter_async_context(budget.permit(0.0, clock.processor))
        waiting = asyncio.create_task(polled(budget, clock))
        await settle()
        assert not waiting.done()
    await waiting


async def test_costly_polls_take_no_more_than_their_share_of_a_core(budget, clock):
    async def again_and_again():
        while True:
            await polled(budget, clock, seconds=0.1)

    start = clock.monotonic()
    tasks = [asyncio.create_task(again_and_again()) for _ in range(10)]
    await clock.advance(100)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert clock.used == pytest.approx(COSTLY_PROCESSOR_SHARE * (clock.monotonic() - start), rel=0.1)


async def test_a_cancelled_wait_keeps_no_permit(budget, clock):
    async with AsyncExitStack() as stack:
        for _ in range(PERMITS):
            await stack.enter_async_context(budget.permit(0.0, clock.processor))
        cancelled = [asyncio.create_task(polled(budget, clock)) for _ in range(5)]
        await settle()
        cancelled[0].cancel()
        await settle()
        assert len(budget._waiting) == 4
    # The permits have been handed to the next, which have not run yet.
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
    assert not budget._waiting
    await asyncio.wait_for(polled(budget, clock), 5)
    assert len(budget._free) == PERMITS


async def test_a_failed_poll_releases_its_permit(budget, clock):
    async def fails():
        raise OSError

    for _ in range(PERMITS + 1):
        with pytest.raises(OSError):
            await polled(budget, clock, then=fails)
    assert len(budget._free) == PERMITS
