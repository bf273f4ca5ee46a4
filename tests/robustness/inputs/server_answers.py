"""HTTP responses of a server: headers, packets and compressed bodies."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Final

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.scrape.client import MAX_FRAMING, MIN_PIECES, PIECE_BYTES, ResponseParser
from spec_decode_exporter.scrape.errors import PollError
from tests.robustness.inputs.row import RejectedError, Row

MAX_BODY: Final = Poll().max_body
KIB: Final = 1024


def answer(body: bytes, *more: str) -> bytes:
    """Return a response with a Content-Length."""
    lines = ("HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *more, "", "")
    return "\r\n".join(lines).encode() + body


def received(whole: bytes, max_body: int, piece: int = 64 * KIB) -> bytes:
    """Parse a response in pieces; return its body or raise ``PollError`` as in a poll."""
    parser = ResponseParser(max_body)
    for start in range(0, len(whole), piece):
        parser.feed(whole[start : start + piece])
    if not parser.is_complete:
        parser.end()
    return parser.body()


async def read_answer(whole: bytes, piece: int = 64 * KIB) -> object:
    """Parse a whole response."""
    try:
        return received(whole, MAX_BODY, piece)
    except PollError as error:
        raise RejectedError(str(error)) from None


async def read_packed(body: bytes) -> object:
    """Parse a response with a compressed body."""
    return await read_answer(answer(body, "Content-Encoding: deflate"))


def headers(size: int) -> bytes:
    """Return a response with the shortest headers, of ``size`` bytes in total."""
    line = b"a: b\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
    more = (size - len(head) - 2) // len(line)
    return head + line * more + b"\r\n1"


def chunks(size: int) -> bytes:
    """Return a response in chunks of one byte, of ``size`` bytes in total."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"1\r\nx\r\n" * ((size - len(head) - 5) // 5) + b"0\r\n\r\n"


def packed(size: int) -> bytes:
    """Return a compressed body of ``size`` bytes after decompression."""
    return zlib.compress(bytes(size), 9)


def empty_blocks(size: int) -> bytes:
    """Return a compressed body of about ``size`` bytes that decompresses to one byte."""
    whole = zlib.compressobj()
    begin = whole.compress(b"x") + whole.flush(zlib.Z_FULL_FLUSH)
    end = whole.flush()
    return begin + b"\x00\x00\x00\xff\xff" * ((size - len(begin) - len(end)) // 5) + end


ROWS: Final = (
    Row(
        name="response headers and chunk sizes",
        read=read_answer,
        worst={
            "the shortest headers": partial(headers, MAX_FRAMING),
            "chunks of one byte": partial(chunks, MAX_FRAMING),
        },
        beyond={"bytes": partial(headers, 2 * MAX_FRAMING)},
    ),
    Row(
        name="packets of a response",
        read=partial(read_answer, piece=1),
        worst={"a byte a packet": lambda: answer(bytes(MIN_PIECES + MAX_BODY // PIECE_BYTES - 100))},
        beyond={"pieces": lambda: answer(bytes(MIN_PIECES + MAX_BODY // PIECE_BYTES))},
    ),
    Row(
        name="compressed body",
        read=read_packed,
        worst={
            "the best packed": partial(packed, MAX_BODY),
            "blocks that unpack to nothing": partial(empty_blocks, MAX_BODY),
        },
        beyond={"unpacked": partial(packed, MAX_BODY + 1), "packed": partial(empty_blocks, MAX_BODY + 20)},
    ),
)
