"""Scheduler of the polls: due polls start at their tick, by one timer."""

from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.scrape.poll.poll_schedule import next_tick
from spec_decode_exporter.scrape.poll.poll_scheduler import PollScheduler
from tests.conftest import settle


@pytest.fixture
def scheduler(clock):
    return PollScheduler(clock)


@pytest.fixture
async def polling(scheduler, clock):
    """Start targets that poll at their ticks; they note the moments, and then do what the test wants."""
    tasks = {}

    async def run(name, offset, noted, poll):
        while True:
            await scheduler.sleep_until(next_tick(clock.monotonic(), 1.0, offset))
            noted.append((name, clock.monotonic()))
            if poll:
                await poll()

    def start(name, noted, *, offset=0.0, poll=None):
        tasks[name] = asyncio.create_task(run(name, offset, noted, poll))
        return tasks[name]

    yield start
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


async def test_due_polls_start_at_their_tick_in_the_order_in_which_they_began_to_wait(polling, clock):
    noted = []
    for name, offset in (("a", 0.5), ("b", 0.25), ("c", 0.5)):
        polling(name, noted, offset=offset)
    await clock.advance(1.9)
    assert noted == [
        ("b", 1000.25), ("a", 1000.5), ("c", 1000.5),
        ("b", 1001.25), ("a", 1001.5), ("c", 1001.5),
    ]  # fmt: skip


async def test_the_polls_of_a_tick_share_one_timer(polling, clock):
    noted = []
    for name in range(100):
        polling(name, noted, offset=name % 4 / 4)
    await settle()
    assert clock.asleep == 4
    await clock.advance(1.0)
    assert (len(noted), clock.asleep) == (100, 4)


async def test_a_late_tick_starts_each_poll_once(polling, clock):
    noted = []
    polling("a", noted)
    await clock.advance(1.0)
    clock.now += 5.4  # the event loop was held up
    await clock.advance(0.0)
    assert noted == [("a", 1001.0), ("a", 1006.4)]
    await clock.advance(1.0)
    assert noted[2:] == [("a", 1007.0)]


async def test_a_poll_that_runs_past_its_next_tick_skips_it(polling, clock):
    noted = []
    polling("slow", noted, poll=lambda: clock.sleep_until(clock.monotonic() + 1.5))
    polling("quick", noted)
    await clock.advance(4.0)
    assert [moment for name, moment in noted if name == "slow"] == [1001.0, 1003.0]
    assert [moment for name, moment in noted if name == "quick"] == [1001.0, 1002.0, 1003.0, 1004.0]


async def test_a_target_that_is_removed_is_not_polled_and_leaves_no_timer(polling, clock):
    noted = []
    task = polling("gone", noted)
    await settle()
    task.cancel()
    await settle()
    assert clock.asleep == 0
    await clock.advance(3.0)
    assert noted == []


async def test_a_target_that_is_removed_at_its_tick_keeps_no_other_from_polling(polling, clock, scheduler):
    noted = []
    task = polling("gone", noted)
    polling("stays", noted)

    async def remove():
        await scheduler.sleep_until(1001.0)
        task.cancel()

    asyncio.ensure_future(remove())  # noqa: RUF006  it ends with the test's clock
    await clock.advance(2.0)
    assert [moment for name, moment in noted if name == "stays"] == [1001.0, 1002.0]
    assert [moment for name, moment in noted if name == "gone"] == [1001.0]


async def test_an_exception_in_one_poll_stops_no_other(polling, clock):
    async def fail():
        raise ZeroDivisionError

    noted = []
    failing = polling("fails", noted, poll=fail)
    polling("works", noted)
    await clock.advance(3.0)
    assert isinstance(failing.exception(), ZeroDivisionError)
    assert [moment for name, moment in noted if name == "works"] == [1001.0, 1002.0, 1003.0]
