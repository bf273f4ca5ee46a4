"""Timeouts of requests under way: one timer for all of them."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Expiring(Protocol):
    """A request under way."""

    def expire(self) -> None:
        """End the request: its deadline has passed."""
        ...


class TimeoutSweep:
    """Ends requests that take too long.

    Nearly all requests end long before their deadlines, so a request only notes its deadline. The timer is
    for the earliest deadline of the last sweep: it fires once a timeout, however many requests there are.
    """

    def __init__(self) -> None:
        self._deadlines: dict[Expiring, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, request: Expiring, deadline: float) -> None:
        """Expire ``request`` at ``deadline``, by the time of the event loop, unless it is removed before."""
        self._deadlines[request] = deadline
        if self._timer is None or deadline < self._timer.when():
            self._start(deadline)

    def remove(self, request: Expiring) -> None:
        """Forget the deadline of a request, also if it has expired."""
        self._deadlines.pop(request, None)

    def _start(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline, self._sweep, deadline)

    def _sweep(self, now: float) -> None:
        """Expire the requests whose deadline has passed; then wait for the earliest of the others."""
        self._timer = None
        expired = [request for request, deadline in self._deadlines.items() if deadline <= now]
        for request in expired:
            self.remove(request)
        if self._deadlines:
            self._start(min(self._deadlines.values()))
        for request in expired:
            request.expire()
