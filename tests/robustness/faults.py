"""Table of what a broken or hostile server may do: how it answers, and what the exporter reports.

What pages may contain stands in ``inputs/``: here are connections and HTTP, and a few pages for each kind of limit.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, repeat
from socket import SO_LINGER, SOL_SOCKET

from tests.robustness.inputs.server_pages import TEXT, answer, engines, head, shuffled

Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Answers one request; afterwards the connection stays open unless it was closed."""

CHUNKED = "Transfer-Encoding: chunked"
POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="{}"}} 1'
READ = "read"


def page(*lines: str, model: str = "m", drafts: float | str = 10) -> bytes:
    """Return the page of an engine with K = 2, and more lines."""
    labels = f'engine="0",model_name="{model}"'
    counters = {"drafts": drafts, "draft_tokens": 20, "accepted_tokens": 15}
    own = (f"vllm:spec_decode_num_{name}_total{{{labels}}} {value}" for name, value in counters.items())
    return "\n".join([*own, *lines, ""]).encode()


def sends(
    data: bytes | Iterator[bytes], ending: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None
) -> Respond:
    """Answer with these bytes, or each request with the next ones; then do what ``ending`` does."""

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(data if isinstance(data, bytes) else next(data))
        await writer.drain()
        if ending is not None:
            await ending(writer)

    return respond


def endless(begin: bytes, piece: bytes) -> Respond:
    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        for part in repeat(piece):
            await sends(part)(writer)

    return respond


async def drip(writer: asyncio.StreamWriter) -> None:
    """Answer one byte at a time."""
    for byte in answer(page()):
        await sends(bytes([byte]))(writer)
        await asyncio.sleep(0.05)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def hang(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(writer: asyncio.StreamWriter) -> None:
    # Without lingering, closing sends a reset.
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


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
    outcome: str = READ  # possible reasons of the failed polls, separated by spaces; ``read`` if none fails
    reason: str = ""  # part of the event in the log; empty if there is none


HALF_BODY = answer(page())[:-80]
LINE = b"# a comment without any meaning, of about 50 bytes\n"

FAULTS = {
    # Connections
    "refuses": Fault(None, "refused", "onnect"),
    "hangs up": Fault(sends(b"", close), "refused", "without an answer"),
    "hangs before the head": Fault(sends(b"", hang), "timeout", "no whole answer"),
    "hangs after the head": Fault(sends(head("Content-Length: 99", TEXT), hang), "timeout", "no whole answer"),
    "hangs in the body": Fault(sends(HALF_BODY, hang), "timeout", "no whole answer"),
    "hangs before the last chunk": Fault(sends(head(CHUNKED, TEXT) + b"%x\r\n%s\r\n" % (len(page()), page()), hang), "timeout", "no whole answer"),
    "drips": Fault(drip, "timeout", "no whole answer"),
    "closes in the body": Fault(sends(HALF_BODY, close), "malformed", "in the middle"),
    "resets": Fault(sends(HALF_BODY, reset), "refused", "reset"),
    # HTTP
    "too short a length": Fault(sends(answer(page(), length=50)), "malformed", "cut off"),
    "too long a length": Fault(sends(answer(page(), length=9_999), hang), "timeout", "no whole answer"),
    "negative length": Fault(sends(answer(page(), length=-1)), "malformed", "not an HTTP answer"),
    "bad chunks": Fault(sends(head(CHUNKED, TEXT) + b"zz\r\n"), "malformed", "not an HTTP answer"),
    "not HTTP": Fault(sends(b"SSH-2.0-OpenSSH_9.2p1\r\n", close), "malformed", "not an HTTP answer"),
    "error": Fault(sends(answer(b"oops", status="500 Internal Server Error")), "status", "500"),
    "switches protocols": Fault(sends(head("Upgrade: h2c", "Connection: Upgrade", status="101 Switching Protocols")), "status", "101"),
    "continues for ever": Fault(endless(b"", head(status="100 Continue") * 50), "too_large", "besides its body"),
    "another type": Fault(sends(answer(page(), "Content-Type: application/json"))),
    # Sizes
    "endless chunks": Fault(endless(head(CHUNKED, TEXT), b"33\r\n" + LINE + b"\r\n"), "too_large timeout"),
    "endless body": Fault(endless(head(TEXT, "Connection: close"), LINE * 100), "too_large timeout"),
    "announces a gigabyte": Fault(sends(head("Content-Length: 1000000000", TEXT), hang), "too_large", "bytes"),
    # Pages
    "empty page": Fault(sends(answer(b"")), "malformed", "empty"),
    "not vLLM": Fault(sends(answer(b"go_goroutines 7\n"))),
    "leaping": Fault(sends(answer(page(drafts=n % 2 * 2**52)) for n in count())),
    "position a million": Fault(sends(answer(page(POSITION.format(10**6))))),
    "128 positions": Fault(sends(answer(page(*map(POSITION.format, range(128)))))),
    # Names
    "1,000 engines": Fault(sends(answer(shuffled(engines(1000, 0)))), "malformed", "at most 256"),
    "256 engines in another order each time": Fault(sends(answer(shuffled(engines(255, 0, "n"), n)) for n in count())),
    "invents engines": Fault(sends(answer(shuffled(engines(200, 0, f"model-{n}"))) for n in count()), READ, "engine_found"),
}  # fmt: skip
