"""Table of what a broken or hostile server may do: how it answers, and what the exporter reports.

What pages may contain stands in ``inputs/``: here are connections and HTTP, and a few pages for each kind of limit.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count, repeat
from socket import SO_LINGER, SOL_SOCKET

from tests.robustness.inputs.server_pages import engines, shuffled

Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Answers one request; afterwards the connection stays open unless it was closed."""

TEXT = "Content-Type: text/plain; version=0.0.4; charset=utf-8"
CHUNKED = "Transfer-Encoding: chunked"
POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="{}"}} 1'
READ = "read"


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    announced = len(body) if length is None else length
    return head(f"Content-Length: {announced}", *(headers or (TEXT,)), status=status) + body


def page(*lines: str, model: str = "m", drafts: float | str = 10, accepted: float | str = 15) -> bytes:
    """Return the page of an engine with K = 2, and more lines."""
    labels = f'engine="0",model_name="{model}"'
    counters = {"drafts": drafts, "draft_tokens": 20, "accepted_tokens": accepted}
    own = (f"vllm:spec_decode_num_{name}_total{{{labels}}} {value}" for name, value in counters.items())
    return "\n".join([*own, *lines, ""]).encode()


def sends(data: bytes, ending: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None) -> Respond:
    """Answer with these bytes, then do what ``ending`` does."""

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if ending is not None:
            await ending(writer)

    return respond


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def hang(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(writer: asyncio.StreamWriter) -> None:
    # Without lingering, closing sends a reset.
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def drips(data: bytes, seconds: float) -> Respond:
    """Answer one byte at a time."""

    async def respond(writer: asyncio.StreamWriter) -> None:
        for byte in data:
            await sends(bytes([byte]))(writer)
            await asyncio.sleep(seconds)

    return respond


def endless(begin: bytes, piece: bytes) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        for part in repeat(piece):
            await sends(part)(writer)

    return respond


def each_time_another(make: Callable[[int], bytes]) -> Respond:
    """Answer the first request with the page ``make(0)``, the next one with ``make(1)``, and so on."""
    numbers = count()

    async def respond(writer: asyncio.StreamWriter) -> None:
        await sends(answer(make(next(numbers))))(writer)

    return respond


@dataclass
class FaultServer:
    """Server on loopback: ``respond`` answers each request; it keeps the requests and counts the connections."""

    respond: Respond
    scheme: str = "http"
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    handlers: set[asyncio.Task[None]] = field(default_factory=set)

    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/metrics"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.handlers.add(asyncio.current_task())
        self.open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                await self.respond(writer)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def serving(respond: Respond, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultServer]:
    """Run a server of a fault until the block ends."""
    server = FaultServer(respond, "https" if tls else "http")
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for writer in server.open:
            writer.transport.abort()
        for handler in server.handlers:
            handler.cancel()
        await asyncio.gather(*server.handlers, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that a server does."""

    respond: Respond | None  # None: a port without a listener
    outcome: frozenset[str]  # possible reasons of the failed polls; ``read`` if none fails
    reason: str = ""  # part of the event in the log; empty if there is none


def _fault(respond: Respond | None, outcome: str = READ, reason: str = "") -> Fault:
    return Fault(respond, frozenset(outcome.split()), reason)


def _page(*lines: str, outcome: str = READ, reason: str = "", **more: float | str) -> Fault:
    return _fault(sends(answer(page(*lines, **more))), outcome, reason)


@cache
def faults() -> dict[str, Fault]:
    """Return the faults by a short name."""
    return {**_connections(), **_http(), **_sizes(), **_pages(), **_names()}


def _connections() -> dict[str, Fault]:
    whole = answer(page())
    half_body = whole[:-80]
    return {
        "refuses": _fault(None, "refused", "onnect"),
        "hangs up": _fault(sends(b"", close), "refused", "without an answer"),
        "hangs before the head": _fault(sends(b"", hang), "timeout", "no whole answer"),
        "hangs after the head": _fault(sends(head("Content-Length: 99", TEXT), hang), "timeout", "no whole answer"),
        "hangs in the body": _fault(sends(half_body, hang), "timeout", "no whole answer"),
        "hangs before the last chunk": _fault(sends(head(CHUNKED, TEXT) + b"%x\r\n%s\r\n" % (len(page()), page()), hang), "timeout", "no whole answer"),
        "drips": _fault(drips(whole, 0.05), "timeout", "no whole answer"),
        "closes in the body": _fault(sends(half_body, close), "malformed", "in the middle"),
        "resets": _fault(sends(half_body, reset), "refused", "reset"),
    }  # fmt: skip


def _http() -> dict[str, Fault]:
    whole = page()
    return {
        "too short a length": _fault(sends(answer(whole, length=50)), "malformed", "cut off"),
        "too long a length": _fault(sends(answer(whole, length=9_999), hang), "timeout", "no whole answer"),
        "negative length": _fault(sends(answer(whole, length=-1)), "malformed", "not an HTTP answer"),
        "bad chunks": _fault(sends(head(CHUNKED, TEXT) + b"zz\r\n"), "malformed", "not an HTTP answer"),
        "not HTTP": _fault(sends(b"SSH-2.0-OpenSSH_9.2p1\r\n", close), "malformed", "not an HTTP answer"),
        "error": _fault(sends(answer(b"oops", status="500 Internal Server Error")), "status", "500"),
        "switches protocols": _fault(sends(head("Upgrade: h2c", "Connection: Upgrade", status="101 Switching Protocols")), "status", "101"),
        "continues for ever": _fault(endless(b"", head(status="100 Continue") * 50), "too_large", "besides its body"),
        "another type": _fault(sends(answer(whole, "Content-Type: application/json"))),
    }  # fmt: skip


def _sizes() -> dict[str, Fault]:
    line = b"# a comment without any meaning, of about 50 bytes\n"
    return {
        "endless chunks": _fault(endless(head(CHUNKED, TEXT), b"33\r\n" + line + b"\r\n"), "too_large timeout"),
        "endless body": _fault(endless(head(TEXT, "Connection: close"), line * 100), "too_large timeout"),
        "announces a gigabyte": _fault(sends(head("Content-Length: 1000000000", TEXT), hang), "too_large", "bytes"),
    }  # fmt: skip


def _pages() -> dict[str, Fault]:
    return {
        "empty page": _fault(sends(answer(b"")), "malformed", "empty"),
        "HTML": _fault(sends(answer(b"<html><body>Bad gateway</body></html>\n", "Content-Type: text/html")), "malformed", "not a metric"),
        "cut line": _fault(sends(answer(page()[:-1])), "malformed", "cut off"),
        "contradicts itself": _fault(sends(answer(page() + page(drafts=11))), "malformed", "the same series"),
        "not vLLM": _fault(sends(answer(b"go_goroutines 7\n"))),
        "NaN": _page(drafts="NaN", outcome="malformed", reason="no counter can have"),
        "leaping": _fault(each_time_another(lambda n: page(drafts=n % 2 * 2**52))),
        "position a million": _page(POSITION.format(10**6)),
        "128 positions": _page(*map(POSITION.format, range(128))),
    }  # fmt: skip


def _names() -> dict[str, Fault]:
    return {
        "1,000 engines": _fault(sends(answer(shuffled(engines(1000, 0)))), "malformed", "at most 256"),
        "256 engines in another order each time": _fault(each_time_another(lambda n: shuffled(engines(255, 0, "n"), n))),
        "invents engines": _fault(each_time_another(lambda n: shuffled(engines(200, 0, f"model-{n}"))), READ, "engine_found"),
        "injects a label": _page(model='x\\",up=\\"1\\"} 1\\nevil_total{a=\\"'),
    }  # fmt: skip
