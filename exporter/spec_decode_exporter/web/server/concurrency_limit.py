"""Limits of requests at a time, shared fairly by the addresses of clients."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.web.server.client_address import client_address
from spec_decode_exporter.web.server.client_connection import ClientConnection
from spec_decode_exporter.web.server.connection_limiter import MOST_CONNECTIONS
from spec_decode_exporter.web.server.fair_queue import BusyError, FairQueue
from spec_decode_exporter.web.server.fair_scheduler import FairScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler

MOST: Final = 8
"""Requests of a kind that are answered at a time."""
MOST_PER_CLIENT: Final = 2
"""Of these, requests of one client address."""
MOST_SCRAPES: Final = 64
"""Scrapes that are answered at a time. They share a rendering, so they cost no more than to be sent."""
MOST_SCRAPES_PER_CLIENT: Final = 16
"""Of these, scrapes of one client address."""
WAIT_SECONDS: Final = 5.0
"""Seconds in the queue, after which a request is rejected: half of Prometheus' usual timeout."""


class ConcurrencyLimit:
    """Limits the requests of one kind that are answered at a time; the others wait in a fair queue.

    Every connection has one request in hand at most, so the queue is as long as there are connections.
    """

    def __init__(
        self, slots: int = MOST, per_client: int = MOST_PER_CLIENT, turns: FairScheduler | None = None
    ) -> None:
        """Answer ``slots`` requests at a time, ``per_client`` of one address, in the time of ``turns``."""
        self._slots = slots
        self._queue: FairQueue[str] = FairQueue(slots, per_client, MOST_CONNECTIONS)
        self._turns = turns or FairScheduler()

    def limit(self, handler: Handler, *, until_stalled: bool = False) -> Handler:
        """Return the handler with a slot for each request, until the last byte of its answer is sent.

        With ``until_stalled``, a request gives its slot back when its client stops reading. That is for
        answers that take no memory of their own.
        """

        async def limited(request: web.Request) -> web.StreamResponse:
            client = client_address(request.transport)
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._queue.take(client)
            except (TimeoutError, BusyError):
                return _busy(self._slots)
            lease = _Lease(partial(self._queue.give_back, client))
            try:
                if until_stalled:
                    _on_stall(request, lease.end)
                return await self._turns.take(_sent(request, handler))
            finally:
                lease.end()

        return limited


class _Lease:
    """A slot that is given back once."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def end(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


def _on_stall(request: web.Request, action: Callable[[], None]) -> None:
    connection = request.transport.get_protocol() if request.transport is not None else None
    if isinstance(connection, ClientConnection):
        connection.on_stall = action


async def _sent(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    with suppress(ConnectionError):  # aiohttp sees it too, and lets go of the connection
        await response.prepare(request)
        await response.write_eof()
    return response


def _busy(slots: int) -> web.Response:
    return web.Response(
        status=503,
        text=f"{slots} requests like this are in hand already; come again later.\n",
        headers={hdrs.RETRY_AFTER: "1"},
    )
