"""Make the bytes of hostile inputs, and pass them to the program by a file or a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiohttp import web
from aiohttp.test_utils import TestServer

from spec_decode_exporter.discovery.groups import MAX_LIST_BYTES
from tests.robustness.hostile.row import Read, RejectedError

MIB: Final = 2**20

Server = Callable[[web.Request], Awaitable[web.StreamResponse]]


def filled(begin: bytes, unit: bytes, end: bytes, size: int = MAX_LIST_BYTES) -> Callable[[], bytes]:
    """Return a function that repeats ``unit`` up to ``size`` bytes, filled with spaces."""
    return lambda: (begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end).ljust(size)


def as_json(value: Callable[[], object]) -> Callable[[], bytes]:
    return lambda: json.dumps(value(), separators=(",", ":")).encode()


def repeated(text: str, number: int) -> Callable[[], bytes]:
    return (text * number).encode


@asynccontextmanager
async def served(answer: Server) -> Any:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("/"))
    finally:
        await server.close()


def in_file(read: Callable[[Path], object], *errors: type[Exception], name: str = "file") -> Read:
    """Return a function that passes the bytes to ``read`` as a file, in a thread as in the program."""

    async def read_file(data: bytes) -> object:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            try:
                return await asyncio.to_thread(read, path)
            except errors as error:
                raise RejectedError(str(error)) from None

    return read_file
