"""Untrusted inputs of the port: requests of clients, and variables of the environment."""

from __future__ import annotations

import asyncio
from typing import Final

from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS
from spec_decode_exporter.web import api, application, endpoint, openapi, server
from tests.robustness.inputs.port import (
    answered,
    array,
    exchange,
    header,
    metrics,
    padded,
    posted,
    request,
    served,
)
from tests.robustness.inputs.row import RejectedError, Row

_LINE: Final = server.MAX_LINE_BYTES

_HEAD: Final = Row(
    name="request line and headers",
    read=answered,
    worst={
        "as many headers as are read": lambda: request(
            *[b"X-%d: a" % number for number in range(server.MAX_HEADERS - 2)]
        ),
        "as many bytes as are read": lambda: request(*[header(b"X", 8000)] * 4),
        "a path of the longest line": lambda: request(path=b"/?q=" + b"%41" * 2600),
    },
    beyond={
        "bytes of a line": lambda: request(path=b"/?q=" + b"a" * _LINE),
        "bytes of a header": lambda: request(header(b"X", _LINE + 100)),
        "bytes in total": lambda: request(*[header(b"X", 8000)] * 5),
        "headers": lambda: request(*[b"X: a"] * (server.MAX_HEADERS + 1)),
    },
)

_ACCEPT: Final = Row(
    name="Accept and Accept-Encoding",
    read=answered,
    worst={
        "elements of one letter": lambda: metrics(*[header(b"Accept", 8000, b"a,")] * 3),
        "parameters without a name": lambda: metrics(header(b"Accept", 8000, b";")),
        "encodings": lambda: metrics(*[header(b"Accept-Encoding", 8000, b"gzip;q=0.1,")] * 3),
    },
)


_SNAPSHOT: Final = b"/api/v1/snapshot?"

_API_QUERY: Final = Row(
    name="query of the API",
    read=answered,
    worst={
        "as many values as are read": lambda: request(
            path=_SNAPSHOT + b"&".join(b"target=%d" % each for each in range(endpoint.MAX_PARAMETERS))
        ),
        "long values": lambda: request(path=_SNAPSHOT + b"&".join([b"model=" + b"a" * 500] * 15)),
        "every group": lambda: request(path=_SNAPSHOT + b"group_by=target&group_by=model_name"),
    },
    beyond={
        "parameters": lambda: request(
            path=_SNAPSHOT + b"&".join(b"target=%d" % each for each in range(endpoint.MAX_PARAMETERS + 1))
        ),
        "a parameter that is not known": lambda: request(path=_SNAPSHOT + b"a" * 7000),
        "a label that no target has": lambda: request(path=_SNAPSHOT + b"match=a%3Db"),
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
        "quotes that do not end": lambda: request(path=b"/fragment?q=" + b"%22" * 2000),
    },
)

_SINCE: Final = Row(
    name="since of the events",
    read=answered,
    worst={
        "the largest id": lambda: request(path=b"/api/v1/events?since=" + b"f" * 16 + b"-" + b"9" * 15),
        "every type of event": lambda: request(path=b"/api/v1/events?limit=1000"),
    },
    beyond={
        "characters": lambda: request(path=b"/api/v1/events?since=" + b"f" * 17 + b"-" + b"9" * 15),
        "events": lambda: request(path=b"/api/v1/events?limit=" + b"9" * 5000),
    },
)

_OTHER_BODY: Final = Row(
    name="body of /-/reload, or of a request without one",
    read=answered,
    worst={
        "as many bytes as are taken": lambda: request(
            method=b"POST", path=b"/-/reload", body=b"a" * application.MAX_UNREAD_BODY
        ),
        "a body of GET": lambda: request(body=b"a" * application.MAX_UNREAD_BODY),
    },
    beyond={
        "bytes": lambda: request(
            method=b"POST", path=b"/-/reload", body=b"a" * (application.MAX_UNREAD_BODY + 1)
        ),
        "a length": lambda: request(b"Transfer-Encoding: chunked") + b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n",
        "a number": lambda: request(b"Content-Length: " + b"9" * 5000),
    },
)

_RECORD: Final = b'{"n":1}'

_REQUESTS: Final = Row(
    name="body of POST /api/v1/requests",
    read=answered,
    worst={
        "as many requests as are read": lambda: posted(array(b"{}", MAX_BATCH_REQUESTS)),
        "repeated keys": lambda: posted(array(b"{" + b",".join([b'"n":1'] * 10_000) + b"}", 16)),
        "deep requests": lambda: posted(array(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", 500)),
        "long numbers": lambda: posted(array(b'{"n":1.' + b"1" * 60_000 + b"}", 16)),
        "escapes": lambda: posted(array(b'{"n":"' + rb"\u0041" * 10_000 + b'"}', 16)),
        "one long request": lambda: posted(_RECORD[:-1] + b',"a":"' + b"a" * 1_000_000 + b'"}'),
        "space": lambda: posted(b"[" + b" " * (openapi.MAX_BODY_BYTES - 2) + b"]"),
        "empty lines": lambda: posted(
            _RECORD + b"\n" * (openapi.MAX_BODY_BYTES - 2 * len(_RECORD)) + _RECORD,
            openapi.NDJSON,
        ),
        "lines that are no JSON": lambda: posted(
            _RECORD + b"\n" + b"\n".join([b"{" * 200] * (MAX_BATCH_REQUESTS - 1)), openapi.NDJSON
        ),
    },
    beyond={
        "bytes": lambda: posted(padded(b"[]", openapi.MAX_BODY_BYTES + 1)),
        "requests": lambda: posted(array(b"{}", MAX_BATCH_REQUESTS + 1)),
        "numbers": lambda: posted(b"[" + b"1," * 500_000 + b"1]"),
        "nesting": lambda: posted(b"[" * openapi.MAX_BODY_BYTES),
        "type": lambda: posted(b"{}", "text/plain"),
        "packing": lambda: request(
            b"Content-Encoding: gzip",
            b"Content-Type: application/json",
            method=b"POST",
            path=api.INGEST_PATH.encode(),
            body=b"{}",
        ),
    },
)


async def _connected(data: bytes) -> int:
    """Open a number of silent connections, in decimal, from one address.

    Raises:
        RejectedError: The server closed one of them.
    """
    async with served() as port:
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(int(data))]
        try:
            for _ in range(200):
                await asyncio.sleep(0)
            # One more that asks shows that connections are taken; it ends one if there is no room.
            if int(data) < server.MAX_CONNECTIONS and not await exchange(port, request()):
                raise RejectedError("a connection was not taken")
            ended = sum(reader.at_eof() for reader, _ in clients)
        finally:
            for _, writer in clients:
                writer.transport.abort()
    if ended:
        raise RejectedError(f"{ended} of {int(data)} connections were ended")
    return int(data)


_CONNECTIONS: Final = Row(
    name="connections",
    read=_connected,
    worst={"as many as are taken": lambda: b"%d" % server.MAX_CONNECTIONS},
    beyond={"connections": lambda: b"%d" % (server.MAX_CONNECTIONS + 1)},
)


ROWS: Final = (
    _CONNECTIONS,
    _HEAD,
    _ACCEPT,
    _API_QUERY,
    _PAGE_QUERY,
    _SINCE,
    _OTHER_BODY,
    _REQUESTS,
)
