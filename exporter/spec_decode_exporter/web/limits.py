"""Answers that protect the exporter: limits of concurrent requests by client, errors as text, compression."""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from contextlib import AsyncExitStack
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.core.tasks import yield_to_event_loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp.typedefs import Handler

LOCAL: Final = "local"
"""Unix sockets, and transports without an address."""
LOOPBACK: Final = "loopback"
"""127.0.0.0/8 and ::1: a local program can connect from each of these addresses."""
WAIT_SECONDS: Final = 5.0
"""Seconds in the queue after which a request is rejected: half of Prometheus' default scrape timeout."""
SEND_SECONDS: Final = 30.0
"""Seconds for a client to read its response, while it holds a place."""
DEFAULT_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Server": "spec-decode-exporter",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
INTERNAL_ERROR: Final = "The exporter failed to answer; see its log."

_HOST_BITS: Final = 64
"""Bits of an IPv6 address that a single host can choose."""
_PIECE: Final = 64 * 1024
"""Bytes that are compressed at once: less than a millisecond of work."""


def client_address(transport: asyncio.BaseTransport | None) -> str:
    """Return the address that the client of a transport is counted by."""
    return counted_address(transport.get_extra_info("peername") if transport is not None else None)


def counted_address(peer: object) -> str:
    """Return the address that a socket's peer is counted by: for IPv6, its /64 network.

    ``peer`` is the result of ``getpeername``: for IPv4 and IPv6 a tuple that begins with the address.
    """
    return _counted(peer[0]) if isinstance(peer, tuple) and peer and isinstance(peer[0], str) else LOCAL


@lru_cache(maxsize=256)
def _counted(text: str) -> str:
    try:
        address: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        return LOCAL
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return LOOPBACK
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), _HOST_BITS), strict=False))
    return str(address)


def error_response(
    status: HTTPStatus,
    text: str,
    *,
    headers: Mapping[str, str] | None = None,
    retry_after: int = 0,
    close: bool = False,
) -> web.Response:
    """Return an error as plain text. For paths of the API, a middleware turns it into a problem.

    Args:
        status: 400 or more.
        text: One sentence, without the line's end.
        headers: Headers besides the default ones.
        retry_after: Seconds after which the client may repeat the request; 0 sends no ``Retry-After``.
        close: Close the connection after the response.
    """
    response = web.Response(status=status, text=f"{text}\n", headers=headers)
    if retry_after:
        response.headers[hdrs.RETRY_AFTER] = str(retry_after)
    if close:
        response.force_close()
    return response


async def packed(body: bytes) -> bytes:
    """Compress with gzip at the fastest level: others cost more than they save."""
    packer, pieces = zlib.compressobj(level=1, wbits=31), []
    for start in range(0, len(body), _PIECE):
        pieces.append(packer.compress(body[start : start + _PIECE]))
        await yield_to_event_loop()
    return b"".join([*pieces, packer.flush()])


class Limit:
    """Limit of concurrent requests, in total and of one client; the others wait in order of arrival."""

    def __init__(self, total: int = 8, per_client: int = 2) -> None:
        self._total = total
        self._places = asyncio.Semaphore(total)
        self._per_client = per_client
        self._clients: defaultdict[str, list[asyncio.Semaphore]] = defaultdict(list)
        """Places of each client, once for each of its requests that run or wait."""

    def limit(self, handler: Handler) -> Handler:
        """Return the handler with a place for each request, until the last byte of its response is sent.

        A request without a place after ``WAIT_SECONDS`` gets 503, and its connection is closed: requests that
        were sent ahead would hold it for minutes.
        """

        async def limited(request: web.Request) -> web.StreamResponse:
            address = client_address(request.transport)
            waiting = self._clients[address]
            places = waiting[0] if waiting else asyncio.Semaphore(self._per_client)
            waiting.append(places)
            try:
                return await self._in_turn(places, request, handler)
            finally:
                waiting.pop()
                if not waiting:
                    del self._clients[address]

        return limited

    async def _in_turn(
        self, places: asyncio.Semaphore, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await held.enter_async_context(places)
                    await held.enter_async_context(self._places)
            except TimeoutError:
                text = f"The exporter already handles {self._total} requests of this kind; retry later."
                return error_response(HTTPStatus.SERVICE_UNAVAILABLE, text, retry_after=1, close=True)
            return await _sent(request, await handler(request))


async def _sent(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Send a response; close the connection of a client that does not read it in time."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await response.prepare(request)
            await response.write_eof()
    except ConnectionError:  # aiohttp notices it too, and closes the connection
        pass
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response
