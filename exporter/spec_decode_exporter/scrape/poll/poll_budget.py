"""Budget of all polls: memory for pages and layouts, and processor time.

The limits of each page and target do not limit their product: a list may name hundreds of the costliest
pages. So costly polls share a few permits, and all layouts share a number of bytes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from itertools import count
from typing import Final

from spec_decode_exporter.core.clock import Clock

LARGE_PAGE: Final = 64 * 1024
"""Bytes; a larger page requires a permit. vLLM's whole page of one engine has 55 kB."""
SMALL_PAGE: Final = 8 * 1024
"""Bytes; few larger pages are read concurrently. A filtered page of one engine has 1.5 kB."""
PERMITS: Final = 3
"""Concurrent costly polls, and pages that are read concurrently."""
COSTLY_PROCESSOR_SHARE: Final = 0.5
"""Maximum share of a core for all costly polls; the rest is for other polls and for requests."""
ORDINARY_PROCESSOR_SHARE: Final = 0.00075
"""Share of a core up to which no target is costly, whatever the number of targets.

A target with one engine takes 0.0005 at one poll a second: above an even share of a thousand targets.
"""
LAYOUT_BYTES: Final = 4 * 1024
"""Bytes of pages whose layouts are kept, for each engine within the limit.

A layout takes 10 to 18 times the memory of its page.
"""

_NO_LIMIT: Final = nullcontext()
_REST: Final = PERMITS / COSTLY_PROCESSOR_SHARE - 1
"""Seconds of rest of a permit for each second of processor time."""


class PollBudget:
    """Share memory and processor time among all polls; the target with the lowest usage is served first.

    A second of waiting counts as ``COSTLY_PROCESSOR_SHARE`` seconds of usage: new targets delay no other
    target indefinitely.
    """

    def __init__(self, clock: Clock, engines: int) -> None:
        """Serve targets with ``engines`` engines in total."""
        self._clock = clock
        self._free: list[float] = [0.0] * PERMITS
        """Times (monotonic) from which each free permit can be used."""
        self._waiting: list[tuple[float, int, asyncio.Future[float]]] = []
        self._number = count()
        self._reading = asyncio.Semaphore(PERMITS)
        self.engines = engines
        self.targets = 0
        """Number of polled targets."""

    @property
    def layout_bytes(self) -> int:
        """Maximum bytes of the pages whose layouts are kept, of all targets."""
        return self.engines * LAYOUT_BYTES

    def is_costly(self, share: float) -> bool:
        """Return whether a target takes more of a core than its part, and than ordinary targets do."""
        return share > ORDINARY_PROCESSOR_SHARE and share * self.targets > COSTLY_PROCESSOR_SHARE

    @asynccontextmanager
    async def permit(self, used: float, spent: Callable[[], float]) -> AsyncIterator[None]:
        """Wait for a permit for a costly poll; the lowest ``used`` is served first.

        Args:
            used: Processor seconds of the target's polls in the last minute.
            spent: Returns the processor seconds of the target's polls so far. The permit rests in proportion
                to those of this poll.
        """
        free_at = await self._acquire(used)
        try:
            await self._clock.sleep_until(free_at)
            before = spent()
            try:
                yield
            finally:
                free_at = self._clock.monotonic() + _REST * (spent() - before)
        finally:
            self._release(free_at)

    def reading(self, size: int) -> AbstractAsyncContextManager[None]:
        """Read a page of ``size`` bytes; the concurrency of pages that are not small is limited."""
        return self._reading if size > SMALL_PAGE else _NO_LIMIT

    async def _acquire(self, used: float) -> float:
        if self._free:
            return heapq.heappop(self._free)
        permit: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        rank = used + COSTLY_PROCESSOR_SHARE * self._clock.monotonic()
        entry = rank, next(self._number), permit
        heapq.heappush(self._waiting, entry)
        try:
            return await permit
        except asyncio.CancelledError:
            if permit.done() and not permit.cancelled():
                self._release(permit.result())
            elif entry in self._waiting:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)
            raise

    def _release(self, free_at: float) -> None:
        while self._waiting:
            *_, permit = heapq.heappop(self._waiting)
            if not permit.done():
                permit.set_result(free_at)
                return
        heapq.heappush(self._free, free_at)
