"""Semaphore that is fair among clients: a limit in total, a limit per client, and a bounded queue."""

from __future__ import annotations

import asyncio
from collections import Counter

from spec_decode_exporter.web.server.fair_queue import FairQueue, QueueFullError


class FairSemaphore:
    """Grants permits to clients, immediately or in turn."""

    def __init__(self, permits: int, permits_per_client: int, max_waiting: int) -> None:
        """Grant ``permits`` at a time, ``permits_per_client`` to one client; ``max_waiting`` may queue."""
        self._free = permits
        self._permits_per_client = permits_per_client
        self._granted: Counter[str] = Counter()
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(max_waiting)

    @property
    def free(self) -> int:
        """Return the number of free permits."""
        return self._free

    @property
    def waiting(self) -> int:
        """Return the number of requests in the queue."""
        return len(self._queue)

    async def acquire(self, client: str) -> None:
        """Wait for a permit, for which the caller must call ``release``.

        Raises:
            QueueFullError: The queue is full, now or later, and no other client has more requests in it.
        """
        # A client in the queue has its maximum of permits, unless no permit is free.
        if self._free and self._is_below_limit(client):
            self._grant(client)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        evicted = self._queue.add(granted, client)
        if evicted is not None and not evicted.done():  # its task may be cancelled but not have run yet
            evicted.set_exception(QueueFullError())
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.release(client)
            self._queue.discard(granted)
            raise

    def release(self, client: str) -> None:
        """Return a permit; the next client in the queue gets it."""
        self._free += 1
        self._granted[client] -= 1
        if not self._granted[client]:
            del self._granted[client]
        while self._free and (following := self._queue.pop(self._is_below_limit)) is not None:
            next_client, granted = following
            if not granted.done():
                self._grant(next_client)
                granted.set_result(None)

    def _is_below_limit(self, client: str) -> bool:
        return self._granted[client] < self._permits_per_client

    def _grant(self, client: str) -> None:
        self._free -= 1
        self._granted[client] += 1
