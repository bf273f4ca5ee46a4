"""Untrusted inputs of the port: requests of clients as bytes, answered by the application behind its real server."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS
from spec_decode_exporter.web import api, application
from spec_decode_exporter.web.server import NO_TLS, parse_listen_address, serve
from tests.robustness.inputs.row import RejectedError, Row
from tests.unit.web.plain_state import plain_state


async def answered(data: bytes) -> bytes:
    """Send a request and return the body of the response.

    Raises:
        RejectedError: The status is 400 or more, or there is no response.
    """
    state = plain_state()
    state.adopt(Config.model_validate({"requests": {"ingest": True}}))
    server = await serve(application.create_app(state), [parse_listen_address("127.0.0.1:0")], NO_TLS)
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


def posted(body: bytes, content_type: str = api.JSON) -> bytes:
    kind = b"Content-Type: " + content_type.encode()
    return request(kind, method=b"POST", path=api.INGEST_PATH.encode(), body=body)


_LINE, _HEADERS = 8190, 128  # aiohttp's limits

_HEAD: Final = Row(
    name="request line and headers",
    read=answered,
    worst={
        "as many headers as are read": lambda: request(
            *[b"X-%d: a" % number for number in range(_HEADERS - 2)]
        ),
        "as many bytes as are read": lambda: request(*[b"X: ".ljust(8000, b"a")] * 4),
    },
    beyond={
        "bytes of a line": lambda: request(path=b"/?q=" + b"a" * _LINE),
        "bytes of a header": lambda: request(b"X: ".ljust(_LINE + 100, b"a")),
        "bytes of more than one read": lambda: request(*[b"X: ".ljust(8000, b"a")] * 12),
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
_DEEP: Final = b'{"a":' + b"[" * 900 + b"]" * 900 + b"},"

_REQUESTS: Final = Row(
    name="body of POST /api/v1/requests",
    read=answered,
    worst={
        "as many requests as are read": lambda: posted(b"[" + b"{}," * (MAX_BATCH_REQUESTS - 1) + b"{}]"),
        "deep requests": lambda: posted(b"[" + _DEEP * 499 + _DEEP[:-1] + b"]"),
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
