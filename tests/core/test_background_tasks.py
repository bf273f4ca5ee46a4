from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from spec_decode_exporter.core.background_tasks import (
    RESTARTED_AFTER,
    Background,
    cancel,
    keep_running,
    spawn,
)
from spec_decode_exporter.core.internal_errors import RECOVERED_AFTER, InternalErrors
from tests.conftest import settle


async def fails():
    raise ValueError("a defect")


async def waits():
    await asyncio.Event().wait()


async def test_a_task_that_raises_is_logged_at_once():
    with capture_logs() as logs:
        spawn(fails())
        await settle()
    assert [(entry["event"], str(entry["exc_info"])) for entry in logs] == [("task_died", "a defect")]


async def test_cancelled_tasks_have_ended_and_are_not_logged():
    with capture_logs() as logs:
        task = spawn(waits())
        await cancel([task, None])
    assert task.cancelled()
    assert logs == []


async def test_tasks_in_the_background_are_kept_until_they_end():
    background, done = Background(), asyncio.Event()
    background.start(done.wait())
    background.start(waits())
    assert len(background._tasks) == 2
    done.set()
    await settle()
    assert len(background._tasks) == 1
    await background.cancel()
    await settle()
    assert background._tasks == set()


async def test_an_endless_task_that_raises_is_restarted_and_logged_once_until_it_recovers(clock):
    runs, failing = [], [True]

    async def run():
        runs.append(clock.now)
        if failing:
            raise ValueError("a defect")
        await asyncio.Event().wait()

    with capture_logs() as logs:
        task = spawn(keep_running("polling", run, InternalErrors(clock.monotonic), clock, {"target": "one"}))
        await clock.advance(3 * RESTARTED_AFTER)
        assert len(runs) == 4
        failing.clear()
        await clock.advance(RESTARTED_AFTER + RECOVERED_AFTER + 1)
        await cancel([task])
    assert len(runs) == 5
    assert [(log["event"], log["target"]) for log in logs] == [
        ("internal_error", "one"),
        ("internal_error_ended", "one"),
    ]


async def test_an_endless_task_ends_when_it_is_cancelled(clock):
    for passed in (0.0, 1.0, RESTARTED_AFTER):
        with capture_logs():
            task = spawn(keep_running("polling", fails, InternalErrors(clock.monotonic), clock))
            await clock.advance(passed)
            await cancel([task])
        assert task.cancelled()
