"""Stream large responses piece by piece: one may have tens of megabytes, and several are sent at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.core.byte_stream import PIECE, joined

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

SEND_SECONDS: Final = 30.0
"""Seconds for a client to read its response."""


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
