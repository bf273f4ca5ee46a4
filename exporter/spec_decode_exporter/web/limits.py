"""Answers that protect the exporter: a limit of concurrent requests, errors as text, compression."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.metrics.negotiation import choose_gzip

MAX_CONNECTIONS: Final = 64  # with TLS, each takes a third of a megabyte; and passwords that wait
MAX_REQUESTS: Final = 8  # of one kind at a time
WAIT_SECONDS: Final = 5.0  # in the queue, after which a request is rejected: half of a scrape's timeout
SEND_SECONDS: Final = 30.0  # for a client to read its response, while it holds a place
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

_PIECE: Final = 64 * 1024  # bytes that are compressed or sent at once: less than a millisecond of work


def error_response(
    status: HTTPStatus, text: str, *, headers: Mapping[str, str] | None = None, close: bool = False
) -> web.Response:
    """Return an error as plain text: a sentence. For paths of the API, a middleware turns it into a problem.

    A busy exporter (503) is asked again in a second; ``close`` ends the connection.
    """
    response = web.Response(status=status, text=f"{text}\n", headers=headers)
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers[hdrs.RETRY_AFTER] = "1"
    if close:
        response.force_close()
    return response


def accepts_gzip(request: web.Request) -> bool:
    """Return whether the client prefers a compressed response."""
    return choose_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, [])))


async def packed_response(request: web.Request, body: bytes, content_type: str) -> web.Response:
    """Return a response, compressed if the client accepts gzip."""
    headers = {"Content-Type": content_type, "Vary": "Accept-Encoding"}
    if accepts_gzip(request):
        body, headers["Content-Encoding"] = b"".join(await packed(in_turn(_split(body)))), "gzip"
    return web.Response(body=body, headers=headers)


async def packed(pieces: AsyncIterator[bytes]) -> list[bytes]:
    """Compress with gzip at the fastest level: others cost more than they save."""
    packer = zlib.compressobj(level=1, wbits=31)
    return [*[part async for piece in pieces if (part := packer.compress(piece))], packer.flush()]


async def in_turn(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield pieces; other tasks run before each, and none after the last: the next request could come."""
    for piece in pieces:
        await yield_to_event_loop()
        yield piece


def _split(body: bytes) -> Iterator[bytes]:
    return (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))


class Limit:
    """Limit of concurrent requests, each in memory as a whole; the others wait in order of arrival."""

    def __init__(self, total: int = MAX_REQUESTS) -> None:
        self._total, self._places = total, asyncio.Semaphore(total)

    def limit(self, handler: Handler) -> Handler:
        """Return the handler with a place for each request, until the last byte of its response is sent.

        A request without a place after ``WAIT_SECONDS`` gets 503, and its connection is closed.
        """

        async def limited(request: web.Request) -> web.StreamResponse:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._places.acquire()
            except TimeoutError:
                text = f"The exporter already handles {self._total} requests of this kind; retry later."
                return error_response(HTTPStatus.SERVICE_UNAVAILABLE, text, close=True)
            try:
                return await sent(request, await handler(request))
            finally:
                self._places.release()

        return limited


async def sent(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Send a response; close the connection of a client that does not read it in time."""
    if isinstance(response, web.Response) and isinstance(body := response.body, bytes) and len(body) > _PIECE:
        # Megabytes at once would hold the event loop and, with TLS, be in memory until the client reads them.
        response.body = in_turn(_split(body))
        response.headers[hdrs.CONTENT_LENGTH] = str(len(body))
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
