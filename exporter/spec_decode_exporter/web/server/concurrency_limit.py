"""Limits of concurrent requests, shared fairly by the addresses of clients."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.web.server.client_address import client_address
from spec_decode_exporter.web.server.client_connection import ClientConnection
from spec_decode_exporter.web.server.connection_limiter import MAX_CONNECTIONS
from spec_decode_exporter.web.server.fair_queue import QueueFullError
from spec_decode_exporter.web.server.fair_scheduler import FairScheduler
from spec_decode_exporter.web.server.fair_semaphore import FairSemaphore
from spec_decode_exporter.web.server.plain_response import error_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web
    from aiohttp.typedefs import Handler

MAX_CONCURRENT: Final = 8
"""Concurrent requests of one kind."""
MAX_CONCURRENT_PER_CLIENT: Final = 2
"""Of these, requests of one client address."""
MAX_SCRAPES: Final = 64
"""Concurrent scrapes. They share one rendering, so a scrape costs only its transfer."""
MAX_SCRAPES_PER_CLIENT: Final = 16
"""Of these, scrapes of one client address."""
WAIT_SECONDS: Final = 5.0
"""Seconds in the queue after which a request is rejected: half of Prometheus' default scrape timeout."""


class ConcurrencyLimit:
    """Limits the concurrent requests of one kind; the others wait in a fair queue.

    Every connection has at most one active request, so the queue is as long as the number of connections.
    """

    def __init__(
        self,
        max_concurrent: int = MAX_CONCURRENT,
        per_client: int = MAX_CONCURRENT_PER_CLIENT,
        scheduler: FairScheduler | None = None,
    ) -> None:
        """Limit requests in total and per client address; their handlers run under ``scheduler``."""
        self._max_concurrent = max_concurrent
        self._semaphore = FairSemaphore(max_concurrent, per_client, MAX_CONNECTIONS)
        self._scheduler = scheduler or FairScheduler()

    def limit(self, handler: Handler, *, until_stalled: bool = False) -> Handler:
        """Return the handler with a permit for each request, until the last byte of its response is sent.

        With ``until_stalled``, a request releases its permit when its client stops reading. Use it for
        responses that share their memory.
        """

        async def limited(request: web.Request) -> web.StreamResponse:
            client = client_address(request.transport)
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._semaphore.acquire(client)
            except (TimeoutError, QueueFullError):
                return self._rejection()
            permit = _Permit(partial(self._semaphore.release, client))
            try:
                if until_stalled:
                    _on_stall(request, permit.release)
                return await self._scheduler.run(_send_completely(request, handler))
            finally:
                permit.release()

        return limited

    def _rejection(self) -> web.Response:
        text = f"The exporter already handles {self._max_concurrent} requests of this kind; retry later."
        return error_response(HTTPStatus.SERVICE_UNAVAILABLE, text, retry_after=1)


class _Permit:
    """A permit that is released once."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


def _on_stall(request: web.Request, action: Callable[[], None]) -> None:
    connection = request.transport.get_protocol() if request.transport is not None else None
    if isinstance(connection, ClientConnection):
        connection.on_stall = action


async def _send_completely(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    with suppress(ConnectionError):  # aiohttp notices it too, and closes the connection
        await response.prepare(request)
        await response.write_eof()
    return response
