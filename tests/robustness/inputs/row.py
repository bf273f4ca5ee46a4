"""One row of the table of untrusted inputs, and the ways to make its bytes and pass them to the program."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from aiohttp import web
from aiohttp.test_utils import TestServer

from spec_decode_exporter.discovery.lists import MAX_LIST_BYTES

MIB: Final = 2**20

Make: TypeAlias = Callable[[], bytes]
Read: TypeAlias = Callable[[bytes], Awaitable[object]]  # passes an input to the program's code
Answer: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RejectedError(Exception):
    """Rejection of an input that is no error of the program; the text is the reason in the log or in a response."""


@dataclass(frozen=True, slots=True)
class Row:
    """One untrusted input."""

    name: str  # for example ``http_sd list``. Unique.
    read: Read
    worst: Mapping[str, Make]
    """By a description: the most expensive inputs within every bound. ``read`` accepts each."""
    beyond: Mapping[str, Make] = field(default_factory=dict)
    """By the name of the bound: inputs just beyond that one bound. ``read`` raises one of ``rejects`` for each."""
    rejects: type[Exception] | tuple[type[Exception], ...] = RejectedError
    """Errors of the program's code, whose text is the reason of the rejection."""


def filled(begin: bytes, unit: bytes, end: bytes = b"", size: int = MAX_LIST_BYTES) -> Make:
    """Return a function that repeats ``unit`` up to ``size`` bytes, filled with spaces."""
    return lambda: (begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end).ljust(size)


def as_json(value: object) -> Make:
    """Return a function that writes a value as JSON, or what a function returns."""
    return lambda: json.dumps(value() if callable(value) else value, separators=(",", ":")).encode()


@asynccontextmanager
async def served(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve what ``answer`` returns at every path; yield the URL."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app, scheme="https" if tls else "http")
    await server.start_server(ssl=tls)
    try:
        yield str(server.make_url("/"))
    finally:
        await server.close()


@dataclass(frozen=True)
class InFile:
    """Passes the bytes to ``read`` as a file, in a thread as in the program."""

    read: Callable[[Path], object]
    name: str = "file"

    async def __call__(self, data: bytes) -> object:
        with TemporaryDirectory() as folder:
            path = Path(folder) / self.name
            path.write_bytes(data)
            return await asyncio.to_thread(self.read, path)
