"""Requests to the port as bytes, and the responses of the application behind its real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from spec_decode_exporter.requests.record import Batch
from spec_decode_exporter.requests.record import read as read_body
from spec_decode_exporter.web import api, application, openapi
from spec_decode_exporter.web.server import NO_TLS, Tls, parse_listen_address, serve
from spec_decode_exporter.web.state import AppState
from tests.robustness.inputs.row import RejectedError
from tests.unit.web.plain_state import plain_state

_LOOPBACK: Final = "127.0.0.1:0"


class _Taker:
    """Read bodies like the exporter, and discard them."""

    async def take(self, body: bytes, *, lines: bool, unsent: object) -> Batch:
        del unsent
        return await read_body(body, lines=lines, salt=None)

    def reject_body(self, status: int) -> None:
        del status


async def _reload() -> None:
    pass


def _state(**given: Any) -> AppState:
    state: AppState = plain_state(receiver=_Taker, reload=_reload, **given)
    return state


@asynccontextmanager
async def served(tls: Tls = NO_TLS, **given: Any) -> AsyncIterator[int]:
    """Serve the application as the program does; yield the port."""
    server = await serve(application.create_app(_state(**given)), [parse_listen_address(_LOOPBACK)], tls)
    try:
        yield int(server.urls[0].rpartition(":")[2].strip("/"))
    finally:
        await server.close()


async def exchange(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def answered(data: bytes, **given: Any) -> bytes:
    """Send a request and return the response.

    Raises:
        RejectedError: The status is 400 or more, or there is no response.
    """
    async with served(**given) as port:
        answer = await exchange(port, data)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not answer:
        raise RejectedError("the connection was ended")
    if int(head.split()[1]) >= 400:
        text = json.loads(body)["detail"] if b"problem+json" in head and body else body.decode()
        raise RejectedError(text.strip() or head.decode().splitlines()[0])
    return body


def request(*lines: bytes, method: bytes = b"GET", path: bytes = b"/", body: bytes = b"") -> bytes:
    length = [b"Content-Length: %d" % len(body)] if body else []
    head = [b"%b %b HTTP/1.1" % (method, path), b"Host: localhost", b"Connection: close", *length, *lines]
    return b"\r\n".join([*head, b"", body])


def metrics(*lines: bytes) -> bytes:
    return request(*lines, path=b"/metrics")


def header(name: bytes, size: int, fill: bytes = b"a") -> bytes:
    """Return a header of ``size`` bytes, with its name."""
    value = size - len(name) - 2
    return name + b": " + (fill * (value // len(fill) + 1))[:value]


def posted(body: bytes, content_type: str = api.JSON) -> bytes:
    kind = b"Content-Type: " + content_type.encode()
    return request(kind, method=b"POST", path=api.INGEST_PATH.encode(), body=body)


def array(record: bytes, count: int) -> bytes:
    return b"[" + b",".join([record] * count) + b"]"


def padded(body: bytes, size: int = openapi.MAX_BODY_BYTES) -> bytes:
    return body + b" " * (size - len(body))
