"""Coalesce concurrent calls into one execution, at most once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final, Generic, TypeVar

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.web.metrics_page import SHARED_SECONDS

PAUSE_SECONDS: Final = 1.0
"""Seconds from the end of an execution to the beginning of the next, for ``Batched``."""

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Executes work at most once in ``SHARED_SECONDS``, for all callers of that time.

    An execution that takes longer than half of them is shared for twice its duration. The work therefore
    takes at most half of the time, whatever the number of callers.
    """

    def __init__(self, work: Callable[[], Awaitable[Result]], now: Callable[[], float]) -> None:
        """Execute ``work`` when called; ``now`` is a monotonic clock in seconds."""
        self._work, self._now = work, now
        self._lock = asyncio.Lock()
        self._results: list[Result] = []
        """The newest result; empty while the work makes the next one, which may need its memory."""
        self._shared_until = -inf
        self._forgotten = 0

    async def __call__(self) -> Result:
        """Return the result of the work; raise what the work raises."""
        called = self._now()
        async with self._lock:
            if self._results and called < self._shared_until:
                return self._results[0]
            self._results.clear()
            forgotten, begun = self._forgotten, self._now()
            result = await self._work()
            self._results.append(result)
            if forgotten == self._forgotten:
                self._shared_until = begun + max(SHARED_SECONDS, 2 * (self._now() - begun))
            return result

    def forget(self) -> None:
        """Execute the work again for the next call: its input has changed."""
        self._forgotten += 1
        self._shared_until = -inf


class Batched:
    """Executes work once for all calls since the last execution began, with a pause between executions.

    In contrast to ``SingleFlight``, the execution always begins after the call: the work reads what the
    caller has just changed.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], clock: Clock) -> None:
        """Execute ``work`` when called."""
        self._work, self._clock = work, clock
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        """The execution that has not begun yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = -inf

    async def __call__(self) -> None:
        """Return when an execution has ended that began after the call; raise what the work raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._execute())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._done)
        await asyncio.shield(self._next)

    async def close(self) -> None:
        """Cancel the executions under way, and with them their callers."""
        await cancel(tuple(self._tasks))

    async def _execute(self) -> None:
        async with self._lock:
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
