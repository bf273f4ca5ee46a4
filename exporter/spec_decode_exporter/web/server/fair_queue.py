"""Permits shared fairly among clients: a limit in total, a limit per client, and a bounded queue.

The queue serves clients in turn, so the number of requests that one client sends delays the others by one
request each. A full queue rejects the newest request of the client that has most requests in it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Generic, TypeVar

Client = TypeVar("Client")


class BusyError(Exception):
    """The queue is full, and no other client has more requests in it."""


class FairQueue(Generic[Client]):
    """Grants permits to clients, at once or in turn."""

    def __init__(self, permits: int, per_client: int, waiting: int) -> None:
        """Grant ``permits`` at a time, ``per_client`` of them to one client; ``waiting`` may queue."""
        self._free = permits
        self._per_client = per_client
        self._most_waiting = waiting
        self._held: Counter[Client] = Counter()
        self._queues: dict[Client, deque[asyncio.Future[None]]] = {}
        """The client whose turn is next comes first. No queue is empty."""

    @property
    def free(self) -> int:
        """The number of free permits."""
        return self._free

    @property
    def waiting(self) -> int:
        """The number of requests in the queue."""
        return sum(map(len, self._queues.values()))

    async def take(self, client: Client) -> None:
        """Return with a permit, for which the caller must call ``give_back``.

        Raises:
            BusyError: the queue is full, now or later, with no client that has more requests in it.
        """
        # A client in the queue holds its limit already, unless no permit is free.
        if self._free and self._held[client] < self._per_client:
            self._grant(client)
            return
        if self.waiting >= self._most_waiting:
            self._make_room(client)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.give_back(client)
            elif granted in self._queues.get(client, ()):
                self._leave(client, granted)
            raise

    def give_back(self, client: Client) -> None:
        """Return a permit; the next client in the queue gets it."""
        self._free += 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        while self._free and (following := self._following()) is not None:
            granted = self._queues[following].popleft()
            rest = self._queues.pop(following)
            if rest:
                self._queues[following] = rest  # behind the other clients
            if not granted.done():
                self._grant(following)
                granted.set_result(None)

    def _following(self) -> Client | None:
        return next((each for each in self._queues if self._held[each] < self._per_client), None)

    def _grant(self, client: Client) -> None:
        self._free -= 1
        self._held[client] += 1

    def _make_room(self, client: Client) -> None:
        most = max(self._queues, key=lambda each: len(self._queues[each]), default=client)
        if len(self._queues.get(most, ())) <= len(self._queues.get(client, ())):
            raise BusyError
        newest = self._queues[most][-1]
        self._leave(most, newest)
        if not newest.done():  # it may have been cancelled in this turn of the event loop
            newest.set_exception(BusyError())

    def _leave(self, client: Client, granted: asyncio.Future[None]) -> None:
        self._queues[client].remove(granted)
        if not self._queues[client]:
            del self._queues[client]
