"""Untrusted inputs of the port: requests of clients, and variables of the environment."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.metrics.negotiation import MAX_CHARACTERS as MAX_HEADER_CHARACTERS
from spec_decode_exporter.requests.request_batch import MAX_BATCH_REQUESTS, MAX_RECORD_CHARACTERS
from spec_decode_exporter.web import application
from spec_decode_exporter.web.api import event_stream, queries, request_ingest
from spec_decode_exporter.web.page import page_query
from spec_decode_exporter.web.page.page_content import MAX_ROWS
from spec_decode_exporter.web.server import http_server
from spec_decode_exporter.web.server.client_connection import (
    HEAD_SECONDS,
    MAX_HEAD_BYTES,
    RECEIVE_BUFFER_BYTES,
)
from spec_decode_exporter.web.server.concurrency_limit import (
    MAX_CONCURRENT,
    MAX_CONCURRENT_PER_CLIENT,
    WAIT_SECONDS,
)
from tests.hostile import clients_identity
from tests.hostile.port import answered, array, header, metrics, padded, posted, request
from tests.hostile.row import Row

_KIB: Final = 2**10
_LINE: Final = http_server.MAX_LINE_BYTES

_HEAD: Final = Row(
    name="request line and headers",
    kind="header",
    controlled_by="a client of the port",
    bytes=f"{_LINE} a line, {MAX_HEAD_BYTES // _KIB} KiB in total, within {HEAD_SECONDS:.0f} s",
    items=f"{http_server.MAX_HEADERS} headers; requests ahead of a response: {MAX_HEAD_BYTES // _KIB} KiB, and the "
    "connection ends with that answer",
    time=f"parsed by C code as it arrives, {RECEIVE_BUFFER_BYTES // _KIB} KiB in one go: 1 ms",
    addresses="nothing",
    beyond_bounds="400, or the connection is closed; no log line",
    read=answered,
    worst={
        "as many headers as are read": lambda: request(
            *[b"X-%d: a" % number for number in range(http_server.MAX_HEADERS - 2)]
        ),
        "as many bytes as are read": lambda: request(*[header(b"X", 8000)] * 4),
        "a path of the longest line": lambda: request(path=b"/?q=" + b"%41" * 2600),
    },
    beyond={
        "bytes of a line": lambda: request(path=b"/?q=" + b"a" * _LINE),
        "bytes of a header": lambda: request(header(b"X", _LINE + 100)),
        "bytes in total": lambda: request(*[header(b"X", 8000)] * 5),
        "headers": lambda: request(*[b"X: a"] * (http_server.MAX_HEADERS + 1)),
    },
)

_ACCEPT: Final = Row(
    name="Accept and Accept-Encoding",
    kind="header",
    controlled_by="a client of the port",
    bytes=f"{MAX_HEADER_CHARACTERS:,} characters",
    items=f"{MAX_HEADER_CHARACTERS // 2:,} elements",
    time="1 ms in one go",
    addresses="nothing; it chooses among the exporter's own formats",
    beyond_bounds="the rest is not read",
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
    kind="socket",
    controlled_by="a client of the port",
    bytes=f"{_LINE} with the path",
    items=f"{queries.MAX_PARAMETERS} parameters; {MAX_CONCURRENT} requests at a time, {MAX_CONCURRENT_PER_CLIENT} of one "
    f"address, the others wait for {WAIT_SECONDS:.0f} s",
    time="one engine at a time; a group of 1,000 engines 40 ms",
    addresses="nothing",
    beyond_bounds="400 with the invalid parameters, or 503; no log line",
    read=answered,
    worst={
        "as many values as are read": lambda: request(
            path=_SNAPSHOT + b"&".join(b"target=%d" % each for each in range(queries.MAX_PARAMETERS))
        ),
        "long values": lambda: request(path=_SNAPSHOT + b"&".join([b"model=" + b"a" * 500] * 15)),
        "every group": lambda: request(path=_SNAPSHOT + b"group_by=target&group_by=model_name"),
    },
    beyond={
        "parameters": lambda: request(
            path=_SNAPSHOT + b"&".join(b"target=%d" % each for each in range(queries.MAX_PARAMETERS + 1))
        ),
        "a parameter that is not known": lambda: request(path=_SNAPSHOT + b"a" * 7000),
        "a label that no target has": lambda: request(path=_SNAPSHOT + b"match=a%3Db"),
    },
)

_PAGE_QUERY: Final = Row(
    name="query of the page",
    kind="socket",
    controlled_by="a client of the port",
    bytes=f"{page_query._MAX_FILTER} characters of the filter, {page_query._MAX_ID} of an engine's id",
    items=f"{page_query._MAX_OPEN} open engines, {MAX_ROWS} rows; slots as for the API",
    time="one engine at a time",
    addresses="nothing; its text is escaped in the page",
    beyond_bounds="the rest is not read",
    read=answered,
    worst={
        "a filter of many words": lambda: request(path=b"/?q=" + b"a+" * 4000),
        "engines that are not there": lambda: request(
            path=b"/?" + b"&".join(b"engine=%3Cb%3E" + b"%d" % each + b"x" * 60 for each in range(100))
        ),
        "quotes that do not end": lambda: request(path=b"/fragment?q=" + b"%22" * 2000),
    },
)

_LAST_EVENT: Final = Row(
    name="Last-Event-ID and since",
    kind="header",
    controlled_by="a client of the port",
    bytes="32 characters",
    items=f"{event_stream.MAX_READERS} streams, {event_stream.MAX_READERS_PER_CLIENT} of one address; 1,000 events",
    time="one pass over the kept events",
    addresses="nothing",
    beyond_bounds="400, or 503; no log line",
    read=answered,
    worst={
        "the largest id": lambda: request(
            b"Last-Event-ID: " + b"f" * 16 + b"-" + b"9" * 15,
            method=b"HEAD",
            path=b"/api/v1/events/stream",
        ),
        "every type of event": lambda: request(path=b"/api/v1/events?limit=1000"),
    },
    beyond={
        "characters": lambda: request(
            b"Last-Event-ID: " + b"f" * 17 + b"-" + b"9" * 15,
            method=b"HEAD",
            path=b"/api/v1/events/stream",
        ),
        "events": lambda: request(path=b"/api/v1/events?limit=" + b"9" * 5000),
    },
)

_OTHER_BODY: Final = Row(
    name="body of /-/reload, or of a request without one",
    kind="socket",
    controlled_by="a client of the port",
    bytes=f"{application._MAX_UNREAD_BODY // _KIB} KiB, with a Content-Length",
    items="none: no such body is read",
    time="none",
    addresses="nothing",
    beyond_bounds="413, and the connection is closed; no log line",
    read=answered,
    worst={
        "as many bytes as are taken": lambda: request(
            method=b"POST", path=b"/-/reload", body=b"a" * application._MAX_UNREAD_BODY
        ),
        "a body of GET": lambda: request(body=b"a" * application._MAX_UNREAD_BODY),
    },
    beyond={
        "bytes": lambda: request(
            method=b"POST", path=b"/-/reload", body=b"a" * (application._MAX_UNREAD_BODY + 1)
        ),
        "a length": lambda: request(b"Transfer-Encoding: chunked") + b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n",
        "a number": lambda: request(b"Content-Length: " + b"9" * 5000),
    },
)

_RECORD: Final = b'{"n":1}'

_REQUESTS: Final = Row(
    name="body of POST /api/v1/requests",
    kind="socket",
    controlled_by="a client of the port, with requests.ingest",
    bytes=f"{request_ingest.MAX_BODY_BYTES // _KIB} KiB within {request_ingest.BODY_SECONDS:.0f} s; "
    f"{MAX_RECORD_CHARACTERS // _KIB} KiB a request",
    items=f"{MAX_BATCH_REQUESTS} requests; {request_ingest.MAX_BODIES} bodies at a time, "
    f"{request_ingest.MAX_BODIES_PER_CLIENT} of one address",
    time=f"{MAX_RECORD_CHARACTERS // _KIB} KiB in one go: 10 ms",
    addresses="nothing",
    beyond_bounds="400, 408, 413, 415 or 503; one log line a minute, requests_refused",
    read=answered,
    worst={
        "as many requests as are read": lambda: posted(array(b"{}", MAX_BATCH_REQUESTS)),
        "repeated keys": lambda: posted(array(b"{" + b",".join([b'"n":1'] * 10_000) + b"}", 16)),
        "deep requests": lambda: posted(array(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", 500)),
        "long numbers": lambda: posted(array(b'{"n":1.' + b"1" * 60_000 + b"}", 16)),
        "escapes": lambda: posted(array(b'{"n":"' + rb"\u0041" * 10_000 + b'"}', 16)),
        "space": lambda: posted(b"[" + b" " * (request_ingest.MAX_BODY_BYTES - 2) + b"]"),
        "lines that are no JSON": lambda: posted(
            _RECORD + b"\n" + b"\n".join([b"{" * 200] * (MAX_BATCH_REQUESTS - 1)), request_ingest.NDJSON
        ),
    },
    beyond={
        "bytes": lambda: posted(padded(b"[]", request_ingest.MAX_BODY_BYTES + 1)),
        "requests": lambda: posted(array(b"{}", MAX_BATCH_REQUESTS + 1)),
        "nesting": lambda: posted(b"[" * request_ingest.MAX_BODY_BYTES),
        "bytes of a request": lambda: posted(b'{"n":"' + b"a" * MAX_RECORD_CHARACTERS + b'"}'),
        "type": lambda: posted(b"{}", "text/plain"),
        "packing": lambda: request(
            b"Content-Encoding: gzip",
            b"Content-Type: application/json",
            method=b"POST",
            path=request_ingest.PATH.encode(),
            body=b"{}",
        ),
    },
)


ROWS: Final = (
    *clients_identity.ROWS,
    _HEAD,
    _ACCEPT,
    _API_QUERY,
    _PAGE_QUERY,
    _LAST_EVENT,
    _OTHER_BODY,
    _REQUESTS,
)
