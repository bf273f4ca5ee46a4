"""Execute work once for all calls that came before it began, with a pause between two executions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from spec_decode_exporter.core.background_tasks import cancel
from spec_decode_exporter.core.clock import Clock

PAUSE_SECONDS = 1.0
"""Seconds from the end of an execution to the beginning of the next."""


class Batched:
    """Executes work for each call, in batches: any number of calls causes one execution a second at most.

    In contrast to ``Together``, the execution always begins after the call: the work reads what the caller
    has just changed.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], clock: Clock) -> None:
        """Execute ``work`` when called."""
        self._work = work
        self._clock = clock
        self._doing = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        """The execution that has not begun yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = -math.inf

    async def __call__(self) -> None:
        """Return when an execution has ended that began after the call; raise what the work raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._execute())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._done)
        await asyncio.shield(self._next)

    async def close(self) -> None:
        """Cancel what is under way; its callers are cancelled too."""
        await cancel(tuple(self._tasks))

    async def _execute(self) -> None:
        async with self._doing:
            await self._clock.sleep_until(self._ended + PAUSE_SECONDS)
            self._next = None  # calls from now on wait for another
            try:
                await self._work()
            finally:
                self._ended = self._clock.monotonic()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._next is task:
            self._next = None
        if not task.cancelled():
            task.exception()  # its callers may be gone, and it is in the log
