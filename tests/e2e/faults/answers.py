"""Answers of broken and hostile servers: bytes, and ways of sending them."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterable
from itertools import count, repeat
from socket import SO_LINGER, SOL_SOCKET

Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Answers one request; afterwards the connection stays open unless it was closed."""

TEXT = "Content-Type: text/plain; version=0.0.4; charset=utf-8"
FOR_EVER = 3600.0


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    told = len(body) if length is None else length
    return head(f"Content-Length: {told}", *(headers or (TEXT,)), status=status) + body


def page(*lines: str, model: str = "m", drafts: float | str = 10, accepted: float | str = 15) -> bytes:
    """A page of an engine with K = 2, and more lines."""
    labels = f'engine="0",model_name="{model}"'
    own = [
        "# TYPE vllm:spec_decode_num_drafts_total counter",
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}",
        "# TYPE vllm:spec_decode_num_draft_tokens_total counter",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} 20",
        "# TYPE vllm:spec_decode_num_accepted_tokens_total counter",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {accepted}",
    ]
    return "\n".join([*own, *lines, ""]).encode()


def engines(names: Iterable[tuple[str, str]]) -> bytes:
    """A page of many engines, each of a model and a number."""
    return "".join(
        f'vllm:spec_decode_num_drafts_total{{engine="{engine}",model_name="{model}"}} 1\n'
        for model, engine in names
    ).encode()


def says(data: bytes) -> Respond:
    """Answer with these bytes."""

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return respond


def says_and_closes(data: bytes) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return respond


def says_and_hangs(data: bytes) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(FOR_EVER)

    return respond


def says_and_resets(data: bytes) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        # Without lingering, closing sends a reset.
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return respond


def drips(data: bytes, seconds: float) -> Respond:
    """Answer one byte at a time."""

    async def respond(writer: asyncio.StreamWriter) -> None:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(seconds)

    return respond


def endless(begin: bytes, piece: bytes) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        for part in repeat(piece):
            writer.write(part)
            await writer.drain()

    return respond


def each_time_another(make: Callable[[int], bytes]) -> Respond:
    """Answer the first request with ``make(0)``, the next one with ``make(1)``, and so on."""
    numbers = count()

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(make(next(numbers)))
        await writer.drain()

    return respond


def gzip(parts: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*map(packer.compress, parts), packer.flush()])
