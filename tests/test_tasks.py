from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from exporter.tasks import Background, cancel, spawn
from tests.conftest import settle


async def fails():
    raise ValueError("a defect")


async def waits():
    await asyncio.Event().wait()


async def test_a_task_that_ends_by_a_defect_is_told_at_once():
    with capture_logs() as logs:
        spawn(fails())
        await settle()
    assert [(entry["event"], str(entry["exc_info"])) for entry in logs] == [("task_died", "a defect")]


async def test_cancelled_tasks_have_ended_and_are_nobodys_news():
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
