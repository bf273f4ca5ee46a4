"""Stream large responses piece by piece: one may have tens of megabytes, and several are sent at a time."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.core.tasks import yield_to_event_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping

SEND_SECONDS: Final = 30.0
"""Seconds for a client to read its response."""
PIECE: Final = 64 * 1024
"""Bytes that are sent or compressed at once: less than a millisecond of work."""


async def each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield existing pieces asynchronously."""
    for piece in pieces:
        yield piece


async def compressed(page: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the page as one gzip stream, at the fastest level: others cost more than they save."""
    packer = zlib.compressobj(level=1, wbits=31)
    async for piece in page:
        for start in range(0, len(piece), PIECE):
            packed = packer.compress(piece[start : start + PIECE])
            if packed:  # the compressor takes some tens of kilobytes before it does any work
                yield packed
                await yield_to_event_loop()
    yield packer.flush()


async def joined(page: AsyncIterable[bytes]) -> AsyncIterable[bytes]:
    """Join pieces to larger ones, for fewer system calls."""
    parts: list[bytes] = []
    size = 0
    async for piece in page:
        parts.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


async def stream(
    request: web.Request, pieces: AsyncIterator[bytes], headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send each piece when it is ready; a response of one piece has a Content-Length.

    The connection is aborted if the client reads longer than ``SEND_SECONDS``, or on an error after the first
    piece: an incomplete response must not look complete.
    """
    rest = aiter(joined(pieces))
    first = await anext(rest)
    if len(first) < PIECE:
        return web.Response(body=first, headers=headers)
    response = web.StreamResponse(headers=headers)
    with suppress(ConnectionError):
        await response.prepare(request)
        if request.method != hdrs.METH_HEAD:
            await _write(request, response, first, rest)
        await response.write_eof()
    return response


async def _write(
    request: web.Request, response: web.StreamResponse, first: bytes, rest: AsyncIterator[bytes]
) -> None:
    loop, seconds_left, piece = asyncio.get_running_loop(), SEND_SECONDS, first
    try:
        while True:
            begun = loop.time()
            async with asyncio.timeout(seconds_left):
                await response.write(piece)
            seconds_left -= loop.time() - begun
            piece = await anext(rest)
    except StopAsyncIteration:
        return
    except TimeoutError:
        _abort(request)
    except Exception:
        _abort(request)
        raise


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
