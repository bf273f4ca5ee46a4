"""Coalesce concurrent calls into one execution (single flight), and share its result for a while."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

SHARED_SECONDS = 1.0
"""Seconds from the beginning of an execution for which calls share it."""


class SingleFlight:
    """Executes work at most once a second, for all who call within it.

    Work that takes longer than half a second is shared for twice as long as it took: however many call, it
    takes no more than half of the time.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], now: Callable[[], float]) -> None:
        """Execute ``work`` when called; ``now`` is a monotonic clock in seconds."""
        self._work = work
        self._now = now
        self._doing = asyncio.Lock()
        self._number = 0
        self._shared_until = -math.inf
        self._forgotten = 0

    async def __call__(self) -> int:
        """Return the number of the execution whose result may be used; raise what the work raises.

        Callers in the same second get the same number. The execution began at most a second before the call,
        or is the newest one if it took longer than half a second.
        """
        called = self._now()
        async with self._doing:
            if called < self._shared_until:
                return self._number
            forgotten, begun = self._forgotten, self._now()
            await self._work()
            self._number += 1
            if forgotten == self._forgotten:
                self._shared_until = begun + max(SHARED_SECONDS, 2 * (self._now() - begun))
            return self._number

    def forget(self) -> None:
        """Execute the work again for the next call: what it reads has changed."""
        self._forgotten += 1
        self._shared_until = -math.inf
