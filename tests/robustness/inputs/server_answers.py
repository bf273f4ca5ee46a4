"""HTTP responses of a server: compressed bodies. Framing stands in ``faults``."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Final

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.scrape.client import ResponseParser
from spec_decode_exporter.scrape.errors import PollError
from tests.robustness.inputs.row import RejectedError, Row

MAX_BODY: Final = Poll().max_body
PIECE: Final = 64 * 1024


def answer(body: bytes, *more: str) -> bytes:
    """Return a response with a Content-Length."""
    lines = ("HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *more, "", "")
    return "\r\n".join(lines).encode() + body


def received(whole: bytes, max_body: int) -> bytes:
    """Parse a response in pieces; return its body or raise ``PollError`` as in a poll."""
    parser = ResponseParser(max_body)
    for start in range(0, len(whole), PIECE):
        parser.feed(whole[start : start + PIECE])
    if not parser.is_complete:
        parser.end()
    return parser.body()


async def read_packed(body: bytes) -> object:
    """Parse a response with a compressed body."""
    try:
        return received(answer(body, "Content-Encoding: deflate"), MAX_BODY)
    except PollError as error:
        raise RejectedError(str(error)) from None


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
        "compressed body",
        read_packed,
        worst={
            "the best packed": partial(packed, MAX_BODY),
            "blocks that unpack to nothing": partial(empty_blocks, MAX_BODY),
        },
        beyond={"unpacked": partial(packed, MAX_BODY + 1), "packed": partial(empty_blocks, MAX_BODY + 20)},
    ),
)
