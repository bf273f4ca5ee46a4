"""Background tasks: a task that raises is logged at once, and restarted if it must not end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Final

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import NO_ITEM, RECOVERED_AFTER, Isolation, Item

RESTARTED_AFTER: Final = 5.0
"""Seconds from an exception of an endless task to its restart."""

_log = structlog.get_logger()


def spawn(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Start a task; the caller keeps it, and an exception is logged when it ends."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_report)
    return task


async def keep_running(
    part: str, run: Callable[[], Awaitable[None]], errors: Isolation, clock: Clock, item: Item = NO_ITEM
) -> None:
    """Run an endless task until cancelled; if it raises, log that once and restart it."""
    recovering: asyncio.Task[None] | None = None
    try:
        while True:
            await errors.attempt_async(part, run, item)
            await cancel([recovering])
            await clock.sleep_until(clock.monotonic() + RESTARTED_AFTER)
            recovering = spawn(_recover(part, errors, clock, item))
    finally:
        await cancel([recovering])


async def _recover(part: str, errors: Isolation, clock: Clock, item: Item) -> None:
    """Log the recovery of a task that still runs a minute after it raised."""
    await clock.sleep_until(clock.monotonic() + RECOVERED_AFTER)
    errors.worked(part, item)


async def cancel(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Cancel tasks, ignore None, and return when they have ended."""
    cancelled = [task for task in tasks if task is not None]
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


class Background:
    """Tasks without a waiting caller, kept until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Start a task."""
        task = spawn(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Cancel all tasks, and return when they have ended."""
        await cancel(self._tasks)


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("task_died", exc_info=error)
