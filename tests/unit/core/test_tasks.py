"""Background tasks and threads: an error is logged once, and work of one kind delays no other kind."""

import asyncio
import contextvars
import threading
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import (
    PAGES,
    PASSWORDS,
    RESTARTED_AFTER,
    STATE,
    TARGET_LISTS,
    Pace,
    ThreadPool,
    cancel,
    keep_running,
    spawn,
)
from tests.conftest import settle

CEILING = 60.0
KINDS = (PAGES, TARGET_LISTS, PASSWORDS, STATE)


async def test_a_task_that_raises_is_logged_at_once():
    with capture_logs() as logs:
        spawn(AsyncMock(side_effect=ValueError("a defect"))())
        await settle()
    assert [(entry["event"], str(entry["exc_info"])) for entry in logs] == [("task_died", "a defect")]


async def test_an_endless_task_that_raises_is_restarted_and_logged_once(clock):
    runs, failing = [], [True]

    async def run():
        runs.append(clock.now)
        if failing:
            raise ValueError("a defect")
        await asyncio.Event().wait()

    with capture_logs() as logs:
        task = spawn(keep_running("polling", run, Isolation(clock.monotonic), clock, {"target": "one"}))
        await clock.advance(3 * RESTARTED_AFTER)
        assert len(runs) == 4
        failing.clear()
        await clock.advance(2 * RESTARTED_AFTER)
        await cancel([task])
    assert len(runs) == 5
    assert [(log["event"], log["target"]) for log in logs] == [("internal_error", "one")]


@pytest.mark.parametrize("busy", KINDS, ids=["pages", "lists", "passwords", "state"])
async def test_work_of_one_kind_that_hangs_delays_no_other_kind(busy):
    end, started = threading.Event(), threading.Event()

    def hang():
        started.set()
        assert end.wait(CEILING)
        return "ended"

    hanging = [asyncio.ensure_future(busy.run(hang)) for _ in range(12)]
    try:
        await asyncio.to_thread(started.wait, CEILING)
        for other in (kind for kind in KINDS if kind is not busy):
            assert await asyncio.wait_for(other.run(lambda: "done"), CEILING) == "done"
        assert not any(each.done() for each in hanging)
    finally:
        end.set()
    assert await asyncio.gather(*hanging) == ["ended"] * 12


async def test_a_function_gets_its_arguments_and_the_context_of_its_caller():
    variable = contextvars.ContextVar("variable")
    variable.set("a")
    assert await ThreadPool("test", 1).run(lambda x, y: (variable.get(), x, y), 1, y=2) == ("a", 1, 2)


async def test_long_work_lets_other_tasks_run_after_each_slice():
    turns = []

    async def other():
        while True:
            turns.append(len(work))
            await asyncio.sleep(0)

    work, pace = [], Pace(10)
    task = asyncio.ensure_future(other())
    for unit in range(35):
        work.append(unit)
        await pace.done()
    await cancel([task])
    assert turns == [10, 20, 30]
