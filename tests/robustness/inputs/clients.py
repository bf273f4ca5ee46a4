"""Untrusted inputs of the port: requests of clients as bytes, answered by the application behind its real server."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS, Batch
from spec_decode_exporter.requests.record import read as read_body
from spec_decode_exporter.web import api, application
from spec_decode_exporter.web.server import NO_TLS, parse_listen_address, serve
from tests.robustness.inputs.row import RejectedError, Row
from tests.unit.web.plain_state import plain_state


class _Taker:
    """Read bodies like the exporter, and discard them."""

    async def take(self, body: bytes, *, lines: bool, unsent: object) -> Batch:
        del unsent
        return await read_body(body, lines=lines, salt=None)

    def reject_body(self, status: int) -> None:
        """Count nothing."""


async def answered(data: bytes) -> bytes:
    """Send a request and return the body of the response.

    Raises:
        RejectedError: The status is 400 or more, or there is no response.
    """
    app = application.create_app(plain_state(receiver=_Taker))
    server = await serve(app, [parse_listen_address("127.0.0.1:0")], NO_TLS)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(server.urls[0].rpartition(":")[2].strip("/"))
    )
    try:
        writer.write(data)
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    finally:
        writer.transport.abort()
        await server.close()
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


def header(size: int) -> bytes:
    """Return a header of ``size`` bytes, with its name."""
    return b"X: ".ljust(size, b"a")


def posted(body: bytes, content_type: str = api.JSON) -> bytes:
    kind = b"Content-Type: " + content_type.encode()
    return request(kind, method=b"POST", path=api.INGEST_PATH.encode(), body=body)


def array(record: bytes, count: int) -> bytes:
    return b"[" + b",".join([record] * count) + b"]"


_LINE, _HEADERS = 8190, 128  # aiohttp's limits

_HEAD: Final = Row(
    name="request line and headers",
    read=answered,
    worst={
        "as many headers as are read": lambda: request(
            *[b"X-%d: a" % number for number in range(_HEADERS - 2)]
        ),
        "as many bytes as are read": lambda: request(*[header(8000)] * 4),
    },
    beyond={
        "bytes of a line": lambda: request(path=b"/?q=" + b"a" * _LINE),
        "bytes of a header": lambda: request(header(_LINE + 100)),
        "bytes of more than one read": lambda: request(*[header(8000)] * 12),
        "headers": lambda: request(*[b"X: a"] * (_HEADERS + 1)),
    },
)

_PAGE_QUERY: Final = Row(
    name="query of the page",
    read=answered,
    worst={
        "a filter of many words": lambda: request(path=b"/?q=" + b"a+" * 4000),
        "engines that are not there": lambda: request(
            path=b"/?" + b"&".join(b"engine=%3Cb%3E" + b"%d" % each + b"x" * 60 for each in range(100))
        ),
    },
)

_RECORD: Final = b'{"n":1}'

_REQUESTS: Final = Row(
    name="body of POST /api/v1/requests",
    read=answered,
    worst={
        "as many requests as are read": lambda: posted(array(b"{}", MAX_BATCH_REQUESTS)),
        "deep requests": lambda: posted(array(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", 500)),
        "one long request": lambda: posted(_RECORD[:-1] + b',"a":"' + b"a" * 1_000_000 + b'"}'),
        "lines that are no JSON": lambda: posted(
            _RECORD + b"\n" + b"\n".join([b"{" * 200] * (MAX_BATCH_REQUESTS - 1)), api.NDJSON
        ),
    },
    beyond={
        "numbers": lambda: posted(b"[" + b"1," * 500_000 + b"1]"),
        "nesting": lambda: posted(b"[" * api.MAX_BODY_BYTES),
    },
)


ROWS: Final = (_HEAD, _PAGE_QUERY, _REQUESTS)
