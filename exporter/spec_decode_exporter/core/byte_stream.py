"""Streams of bytes in pieces: compress and join them, without delaying polls."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.tasks import yield_to_event_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable

_PACKED: Final = 64 * 1024
"""Bytes that are compressed at once: less than a millisecond of work."""

PIECE: Final = 64 * 1024
"""Bytes that are sent at once."""


async def each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield existing pieces asynchronously."""
    for piece in pieces:
        yield piece


async def compressed(page: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the page as one gzip stream, at the fastest level: others cost more than they save."""
    stream = zlib.compressobj(level=1, wbits=31)
    async for piece in page:
        for start in range(0, len(piece), _PACKED):
            packed = stream.compress(piece[start : start + _PACKED])
            if packed:  # the compressor takes some tens of kilobytes before it does any work
                yield packed
                await yield_to_event_loop()
    yield stream.flush()


async def compress(page: AsyncIterable[bytes]) -> bytes:
    """Return the page as one gzip stream."""
    return b"".join([piece async for piece in compressed(page)])


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
