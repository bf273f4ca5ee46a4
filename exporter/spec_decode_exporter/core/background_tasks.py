"""Tasks in the background: that one ended by a defect is said at once, not when somebody misses it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Final

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.internal_errors import NO_ITEM, RECOVERED_AFTER, InternalErrors, Item

RESTARTED_AFTER: Final = 5.0
"""Seconds after which a task without end that raised is run again."""

_log = structlog.get_logger()


def spawn(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Run in the background; the caller keeps the task."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_report)
    return task


async def keep_running(
    part: str, run: Callable[[], Awaitable[None]], errors: InternalErrors, clock: Clock, item: Item = NO_ITEM
) -> None:
    """Run a task without end until cancelled; if it raises, log that once and run it again."""
    recovering: asyncio.Task[None] | None = None
    try:
        while True:
            await errors.attempt_async(part, run, item)
            await cancel([recovering])
            await clock.sleep_until(clock.monotonic() + RESTARTED_AFTER)
            recovering = spawn(_recover(part, errors, clock, item))
    finally:
        await cancel([recovering])


async def _recover(part: str, errors: InternalErrors, clock: Clock, item: Item) -> None:
    """Log the recovery of a task that is still running a minute after it raised."""
    await clock.sleep_until(clock.monotonic() + RECOVERED_AFTER)
    errors.worked(part, item)


async def cancel(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Cancel those that there are, and return when they have ended."""
    cancelled = [task for task in tasks if task is not None]
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


class Background:
    """Tasks that nobody waits for, kept until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Run in the background."""
        task = spawn(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Cancel all of them, and return when they have ended."""
        await cancel(self._tasks)


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("task_died", exc_info=error)
