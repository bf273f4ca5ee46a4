from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from spec_decode_exporter.core.background_tasks import (
    RESTARTED_AFTER,
    cancel,
    keep_running,
    spawn,
)
from spec_decode_exporter.core.isolation import RECOVERED_AFTER, Isolation
from tests.conftest import settle


async def fails():
    raise ValueError("a defect")


async def test_a_task_that_raises_is_logged_at_once():
    with capture_logs() as logs:
        spawn(fails())
        await settle()
    assert [(entry["event"], str(entry["exc_info"])) for entry in logs] == [("task_died", "a defect")]


async def test_an_endless_task_that_raises_is_restarted_and_logged_once_until_it_recovers(clock):
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
        await clock.advance(RESTARTED_AFTER + RECOVERED_AFTER + 1)
        await cancel([task])
    assert len(runs) == 5
    assert [(log["event"], log["target"]) for log in logs] == [
        ("internal_error", "one"),
        ("internal_error_ended", "one"),
    ]
