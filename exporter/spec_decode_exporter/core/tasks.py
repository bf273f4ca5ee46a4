"""Background tasks, threads for blocking work, and yields of long work to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import NO_ITEM, Isolation, Item

RESTARTED_AFTER: Final = 5.0  # seconds from an exception of an endless task to its restart

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
_log = structlog.get_logger()


def spawn(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Start a task; the caller keeps it, and an exception is logged when it ends."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("task_died", exc_info=error)


async def keep_running(
    part: str, run: Callable[[], Awaitable[None]], errors: Isolation, clock: Clock, item: Item = NO_ITEM
) -> None:
    """Run an endless task until cancelled; restart it if it raises."""
    while True:
        await errors.attempt_async(part, run, item)
        await clock.sleep_until(clock.monotonic() + RESTARTED_AFTER)


async def cancel(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Cancel tasks, ignore None, and return when they have ended."""
    cancelled = [task for task in tasks if task is not None]
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


async def unless_stopped(work: Awaitable[Result], stop: asyncio.Event) -> Result | None:
    """Return the result of ``work``; None if ``stop`` is set meanwhile, which cancels it."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()


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


class ThreadPool:
    """Threads for one kind of blocking work; each starts when it is needed."""

    def __init__(self, name: str, threads: int) -> None:
        """Run at most ``threads`` functions at a time."""
        self._executor = ThreadPoolExecutor(threads, name)

    async def run(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Return the result of a function that runs in a thread, in the caller's context."""
        call = partial(copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


# A pool for each kind of work: a slow file system or a long list delays no other kind.
PAGES: Final = ThreadPool("pages", 1)
"""Large pages of servers; reading holds the GIL, so a second thread would only delay the polls."""
TARGET_LISTS: Final = ThreadPool("target-lists", 1)  # lists of targets and pods; parsing holds the GIL too
TARGET_FILES: Final = ThreadPool("target-files", 2)
"""Files with lists of targets; reading them may wait for a file system."""
CONFIGURATION: Final = ThreadPool("configuration", 1)
WEB_CONFIGURATION: Final = ThreadPool("web-configuration", 1)
PASSWORDS: Final = ThreadPool("passwords", 1)
STATE: Final = ThreadPool("state", 1)
DOCUMENTATION: Final = ThreadPool("documentation", 1)


async def yield_to_event_loop() -> None:
    """Let every other task that is ready run once."""
    await asyncio.sleep(0)


class Pace:
    """Yields to the event loop after each ``size`` units of work; counting units needs no clock."""

    def __init__(self, size: int) -> None:
        """Begin with no work done."""
        self._size, self._done = size, 0

    async def done(self, units: int = 1) -> None:
        """Note ``units`` of work; yield if enough was done since the last yield."""
        self._done += units
        if self._done >= self._size:
            self._done = 0
            await yield_to_event_loop()
