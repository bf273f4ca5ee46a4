"""Budget of all polls together: memory for pages and layouts, and processor time.

Each page and each target has bounds of its own. They do not limit their product: a list may name hundreds of
pages, each as costly as one may be. So costly polls share a few permits, and layouts a number of bytes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from spec_decode_exporter.core.clock import Clock

LARGE_PAGE: Final = 64 * 1024
"""Bytes: a larger page is only asked for with a permit. vLLM's whole page of one engine has 55 kB."""
SMALL_PAGE: Final = 8 * 1024
"""Bytes: a larger page is read while few others are. A filtered page of one engine has 1.5 kB."""
PERMITS: Final = 3
"""Costly polls at a time, and pages that are read at a time."""
COSTLY_PROCESSOR_SHARE: Final = 0.5
"""The share of a core that costly polls may take together; the rest is for other polls and for pages."""
LAYOUT_BYTES: Final = 4 * 1024
"""Bytes of pages whose layouts are kept, for each engine that may be watched. A layout takes 10 to 18 times
as much as its page."""

_REST: Final = PERMITS / COSTLY_PROCESSOR_SHARE - 1
"""Seconds that a permit rests for each second of processor time."""


class PollBudget:
    """Shares memory and processor time among all polls; the target that took least comes first.

    A second of waiting counts as much as ``COSTLY_PROCESSOR_SHARE`` seconds that were used: targets that are new all
    the time delay no other for ever.
    """

    def __init__(self, clock: Clock, engines: int) -> None:
        """Serve as many targets as show ``engines`` engines together."""
        self._clock = clock
        self._free: list[float] = [0.0] * PERMITS
        """When each permit that is not in use may be used again (monotonic)."""
        self._waiting: list[tuple[float, int, asyncio.Future[float]]] = []
        self._number = count()
        self._reading = asyncio.Semaphore(PERMITS)
        self.engines = engines
        self.targets = 0
        """The number of targets that are polled."""

    @property
    def layout_bytes(self) -> int:
        """The bytes of pages of which the layouts may be kept, of all targets together."""
        return self.engines * LAYOUT_BYTES

    def is_costly(self, share: float) -> bool:
        """Return whether a target whose polls take this share of a core takes more than its part."""
        return share * self.targets > COSTLY_PROCESSOR_SHARE

    @asynccontextmanager
    async def permit(self, used: float, spent: Callable[[], float]) -> AsyncIterator[None]:
        """Wait for a permit, for a poll that is costly; the target that has ``used`` least is served first.

        Args:
            used: Processor seconds of the target's polls in the last minute.
            spent: Returns the processor seconds of the target's polls so far. In proportion to those of this
                poll, the permit then rests.
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

    @asynccontextmanager
    async def reading(self, size: int) -> AsyncIterator[None]:
        """Read a page of ``size`` bytes; of pages that are not small, a few are read at a time."""
        if size <= SMALL_PAGE:
            yield
            return
        async with self._reading:
            yield

    async def _acquire(self, used: float) -> float:
        if self._free:
            return heapq.heappop(self._free)
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        rank = used + COSTLY_PROCESSOR_SHARE * self._clock.monotonic()
        entry = rank, next(self._number), turn
        heapq.heappush(self._waiting, entry)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(turn.result())
            elif entry in self._waiting:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)
            raise

    def _release(self, free_at: float) -> None:
        while self._waiting:
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(free_at)
                return
        heapq.heappush(self._free, free_at)
