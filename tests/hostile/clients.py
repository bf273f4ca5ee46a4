"""Untrusted inputs of the port: all that a client can send, and the variables of the environment."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import bcrypt
import trustme
from pydantic import SecretStr

from exporter.cli import parse
from exporter.commands.flags import UsageError
from exporter.requests.records import MOST_CHARACTERS
from exporter.requests.wire import MOST_REQUESTS, Batch
from exporter.requests.wire import read as read_body
from exporter.web import app, listen
from exporter.web.api import queries, requests, stream
from exporter.web.door import HANDSHAKE_SECONDS, HEAD_SECONDS, MOST_CONNECTIONS, MOST_HEAD, Tls
from exporter.web.listen import Plain, parse_listen_address, serve
from exporter.web.negotiation import MOST_CHARACTERS as MOST_OF_A_HEADER
from exporter.web.page import query as page_query
from exporter.web.page.content import MOST_ROWS
from exporter.web.security.checks import MOST_WAITING, BusyError
from exporter.web.security.guard import _credentials
from exporter.web.security.hosts import AllowedHosts
from exporter.web.security.passwords import Passwords
from exporter.web.slots import MOST, MOST_PER_CLIENT, WAIT_SECONDS
from exporter.web.state import AppState
from tests.hostile.row import RejectedError, Row
from tests.web.conftest import NOTHING_TO_TELL, plain_state

_KIB: Final = 2**10
_LINE: Final = listen._MOST_LINE
_ALLOWED: Final = "exporter.example.com"
_LOOPBACK: Final = "127.0.0.1:0"


class _Taker:
    """Reads bodies as the exporter does, and keeps nothing of them."""

    async def take(self, body: bytes, *, lines: bool, dropped: int = 0) -> Batch:
        del dropped
        return await read_body(body, lines=lines, salt=None)

    def turned_away(self, status: int) -> None:
        del status


async def _reload() -> None:
    pass


def _state(**given: Any) -> AppState:
    state: AppState = plain_state(api=replace(NOTHING_TO_TELL, intake=_Taker), reload=_reload, **given)
    return state


@asynccontextmanager
async def _served(tls: Tls | None = None, **given: Any) -> AsyncIterator[int]:
    """Serve the application as the program does; yield the port."""
    server = await serve(app.create_app(_state(**given)), [parse_listen_address(_LOOPBACK)], tls)
    try:
        yield int(server.urls[0].rpartition(":")[2].strip("/"))
    finally:
        await server.close()


async def _exchange(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def _answer(data: bytes, **given: Any) -> bytes:
    """Send a request and return the answer.

    Raises:
        RejectedError: the status is 400 or more, or there is no answer.
    """
    async with _served(**given) as port:
        answer = await _exchange(port, data)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not answer:
        raise RejectedError("the connection was ended")
    if int(head.split()[1]) >= 400:
        text = json.loads(body)["detail"] if b"problem+json" in head and body else body.decode()
        raise RejectedError(text.strip() or head.decode().splitlines()[0])
    return body


def _request(*lines: bytes, method: bytes = b"GET", path: bytes = b"/", body: bytes = b"") -> bytes:
    length = [b"Content-Length: %d" % len(body)] if body else []
    head = [b"%b %b HTTP/1.1" % (method, path), b"Host: localhost", b"Connection: close", *length, *lines]
    return b"\r\n".join([*head, b"", body])


def _metrics(*lines: bytes) -> bytes:
    return _request(*lines, path=b"/metrics")


def _header(name: bytes, size: int, fill: bytes = b"a") -> bytes:
    """Return a header of ``size`` bytes, with its name."""
    value = size - len(name) - 2
    return name + b": " + (fill * (value // len(fill) + 1))[:value]


def _body(body: bytes, content_type: str = requests.JSON) -> bytes:
    kind = b"Content-Type: " + content_type.encode()
    return _request(kind, method=b"POST", path=requests.PATH.encode(), body=body)


def _array(record: bytes, count: int) -> bytes:
    return b"[" + b",".join([record] * count) + b"]"


def _padded(body: bytes, size: int = requests.MOST_BODY) -> bytes:
    return body + b" " * (size - len(body))


_HEAD: Final = Row(
    name="request line and headers",
    kind="header",
    controlled_by="a client of the port",
    bytes=f"{_LINE} a line, {MOST_HEAD // _KIB} KiB in total, within {HEAD_SECONDS:.0f} s",
    items=f"{listen._MOST_HEADERS} headers",
    time="parsed by C code as it arrives; 1 ms",
    addresses="nothing",
    beyond_bounds="400, or the connection is ended; no log line",
    read=_answer,
    worst={
        "as many headers as are read": lambda: _request(
            *[b"X-%d: a" % number for number in range(listen._MOST_HEADERS - 2)]
        ),
        "as many bytes as are read": lambda: _request(*[_header(b"X", 8000)] * 4),
        "a path of the longest line": lambda: _request(path=b"/?q=" + b"%41" * 2600),
    },
    beyond={
        "bytes of a line": lambda: _request(path=b"/?q=" + b"a" * _LINE),
        "bytes of a header": lambda: _request(_header(b"X", _LINE + 100)),
        "bytes in total": lambda: _request(*[_header(b"X", 8000)] * 5),
        "headers": lambda: _request(*[b"X: a"] * (listen._MOST_HEADERS + 1)),
    },
)

_ACCEPT: Final = Row(
    name="Accept and Accept-Encoding",
    kind="header",
    controlled_by="a client of the port",
    bytes=f"{MOST_OF_A_HEADER:,} characters",
    items=f"{MOST_OF_A_HEADER // 2:,} elements",
    time="1 ms in one go",
    addresses="nothing; it chooses among the exporter's own formats",
    beyond_bounds="the rest is not read",
    read=_answer,
    worst={
        "elements of one letter": lambda: _metrics(*[_header(b"Accept", 8000, b"a,")] * 3),
        "parameters without a name": lambda: _metrics(_header(b"Accept", 8000, b";")),
        "encodings": lambda: _metrics(*[_header(b"Accept-Encoding", 8000, b"gzip;q=0.1,")] * 3),
    },
)


@cache
def _users() -> dict[str, SecretStr]:
    return {"prometheus": SecretStr(bcrypt.hashpw(b"r" * 72, bcrypt.gensalt(4)).decode())}


async def _authorized(data: bytes) -> bool:
    """Check ``Authorization`` headers that come at once from one address, one a line; the last must pass."""
    passwords, checks = Passwords(), []
    for line in data.decode("latin-1").splitlines():
        given = _credentials(line)
        if given is None:
            raise RejectedError("Unauthorized")
        checks.append(asyncio.create_task(passwords.match(_users(), *given, "10.0.0.1")))
    *_, last = await asyncio.gather(*checks, return_exceptions=True)
    if isinstance(last, BusyError):
        raise RejectedError("Too many passwords wait to be checked")
    if last is not True:
        raise RejectedError("Unauthorized")
    return True


def _basic(password: bytes) -> bytes:
    return b"Basic " + b64encode(b"prometheus:" + password) + b"\n"


_AUTHORIZATION: Final = Row(
    name="Authorization",
    kind="header",
    controlled_by="a client of the port",
    bytes=f"{_LINE}; 72 of the password count",
    items=f"{MOST_WAITING} passwords wait, one is checked at a time; addresses and user names take turns",
    time="bcrypt in a thread, without the interpreter's lock",
    addresses="nothing",
    beyond_bounds="401, or 503 for the address with most that wait; no log line",
    read=_authorized,
    worst={
        "the longest password": lambda: _basic(b"r" * 6000),
        "a right password behind as many guesses as wait": lambda: (
            b"".join(_basic(b"%d" % guess) for guess in range(MOST_WAITING - 1)) + _basic(b"r" * 72)
        ),
    },
    beyond={
        "passwords that wait": lambda: (
            b"".join(_basic(b"%d" % guess) for guess in range(MOST_WAITING)) + _basic(b"r" * 72)
        ),
        "another scheme": lambda: b"Bearer " + b"a" * 8000 + b"\n",
    },
)

_HOSTS: Final = Row(
    name="Host, Origin and Sec-Fetch-Site",
    kind="header",
    controlled_by="a browser that a page of another site makes send requests",
    bytes=f"{_LINE}; a name of 253",
    items="one Host",
    time="10 µs",
    addresses="nothing; with --web.allowed-hosts, the named hosts, addresses and localhost",
    beyond_bounds="421 for another host, 403 for a change by another site; no log line",
    read=partial(_answer, allowed_hosts=AllowedHosts.parse([_ALLOWED, "*.svc.cluster.local"])),
    worst={
        "the longest name": lambda: _request().replace(b"localhost", b"a." * 117 + b"svc.cluster.local:7732"),
        "an origin of the longest line, without a change": lambda: _request(_header(b"Origin", 8000)),
        "the own origin": lambda: _request(
            b"Origin: http://localhost", b"Sec-Fetch-Site: same-origin", method=b"POST", path=b"/-/reload"
        ),
    },
    beyond={
        "host": lambda: _request().replace(b"localhost", b"evil.example"),
        "one Host": lambda: _request(b"Host: evil.example"),
        "origin": lambda: _request(b"Origin: https://evil.example", method=b"POST", path=b"/-/reload"),
        "site": lambda: _request(b"Sec-Fetch-Site: cross-site", method=b"POST", path=b"/-/reload"),
    },
)

_SNAPSHOT: Final = b"/api/v1/snapshot?"

_API_QUERY: Final = Row(
    name="query of the API",
    kind="socket",
    controlled_by="a client of the port",
    bytes=f"{_LINE} with the path",
    items=f"{queries.MOST_PARAMETERS} parameters; {MOST} requests at a time, {MOST_PER_CLIENT} of one "
    f"address, the others wait for {WAIT_SECONDS:.0f} s",
    time="one engine at a time; a group of 1,000 engines 40 ms",
    addresses="nothing",
    beyond_bounds="400 with the parameters that are wrong, 503; no log line",
    read=_answer,
    worst={
        "as many values as are read": lambda: _request(
            path=_SNAPSHOT + b"&".join(b"target=%d" % each for each in range(queries.MOST_PARAMETERS))
        ),
        "long values": lambda: _request(path=_SNAPSHOT + b"&".join([b"model=" + b"a" * 500] * 15)),
        "every group": lambda: _request(path=_SNAPSHOT + b"group_by=target&group_by=model_name"),
    },
    beyond={
        "parameters": lambda: _request(
            path=_SNAPSHOT + b"&".join(b"target=%d" % each for each in range(queries.MOST_PARAMETERS + 1))
        ),
        "a parameter that is not known": lambda: _request(path=_SNAPSHOT + b"a" * 7000),
        "a label that no target has": lambda: _request(path=_SNAPSHOT + b"match=a%3Db"),
    },
)

_PAGE_QUERY: Final = Row(
    name="query of the page",
    kind="socket",
    controlled_by="a client of the port",
    bytes=f"{page_query._LONGEST} characters of the filter, {page_query._LONGEST_ID} of an engine's id",
    items=f"{page_query._MOST_OPEN} open engines, {MOST_ROWS} rows; slots as for the API",
    time="one engine at a time",
    addresses="nothing; its text is escaped in the page",
    beyond_bounds="the rest is not read",
    read=_answer,
    worst={
        "a filter of many words": lambda: _request(path=b"/?q=" + b"a+" * 4000),
        "engines that are not there": lambda: _request(
            path=b"/?" + b"&".join(b"engine=%3Cb%3E" + b"%d" % each + b"x" * 60 for each in range(100))
        ),
        "quotes that do not end": lambda: _request(path=b"/fragment?q=" + b"%22" * 2000),
    },
)

_LAST_EVENT: Final = Row(
    name="Last-Event-ID and since",
    kind="header",
    controlled_by="a client of the port",
    bytes="32 characters",
    items=f"{stream.MOST_READERS} streams, {stream.MOST_PER_CLIENT} of one address; 1,000 events",
    time="one pass over the events that are kept",
    addresses="nothing",
    beyond_bounds="400, or 503; no log line",
    read=_answer,
    worst={
        "the largest id": lambda: _request(
            b"Last-Event-ID: " + b"f" * 16 + b"-" + b"9" * 15,
            method=b"HEAD",
            path=b"/api/v1/events/stream",
        ),
        "every type of event": lambda: _request(path=b"/api/v1/events?limit=1000"),
    },
    beyond={
        "characters": lambda: _request(
            b"Last-Event-ID: " + b"f" * 17 + b"-" + b"9" * 15,
            method=b"HEAD",
            path=b"/api/v1/events/stream",
        ),
        "events": lambda: _request(path=b"/api/v1/events?limit=" + b"9" * 5000),
    },
)

_OTHER_BODY: Final = Row(
    name="body of /-/reload, or of a request without one",
    kind="socket",
    controlled_by="a client of the port",
    bytes=f"{app._MOST_BODY // _KIB} KiB, with a Content-Length",
    items="none: no such body is read",
    time="none",
    addresses="nothing",
    beyond_bounds="413, and the connection is ended; no log line",
    read=_answer,
    worst={
        "as many bytes as are taken": lambda: _request(
            method=b"POST", path=b"/-/reload", body=b"a" * app._MOST_BODY
        ),
        "a body of GET": lambda: _request(body=b"a" * app._MOST_BODY),
    },
    beyond={
        "bytes": lambda: _request(method=b"POST", path=b"/-/reload", body=b"a" * (app._MOST_BODY + 1)),
        "a length": lambda: _request(b"Transfer-Encoding: chunked") + b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n",
        "a number": lambda: _request(b"Content-Length: " + b"9" * 5000),
    },
)

_RECORD: Final = b'{"n":1}'

_REQUESTS: Final = Row(
    name="body of POST /api/v1/requests",
    kind="socket",
    controlled_by="a client of the port, with requests.ingest",
    bytes=f"{requests.MOST_BODY // _KIB} KiB within {requests._BODY_SECONDS:.0f} s; "
    f"{MOST_CHARACTERS // _KIB} KiB a request",
    items=f"{MOST_REQUESTS} requests; {requests.MOST_BODIES} bodies at a time, "
    f"{requests.MOST_BODIES_PER_CLIENT} of one address",
    time=f"{MOST_CHARACTERS // _KIB} KiB in one go: 10 ms",
    addresses="nothing",
    beyond_bounds="400, 408, 413, 415 or 503; one log line a minute, requests_refused",
    read=_answer,
    worst={
        "as many requests as are read": lambda: _body(_array(b"{}", MOST_REQUESTS)),
        "repeated keys": lambda: _body(_array(b"{" + b",".join([b'"n":1'] * 10_000) + b"}", 16)),
        "deep requests": lambda: _body(_array(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", 500)),
        "long numbers": lambda: _body(_array(b'{"n":1.' + b"1" * 60_000 + b"}", 16)),
        "escapes": lambda: _body(_array(b'{"n":"' + rb"\u0041" * 10_000 + b'"}', 16)),
        "space": lambda: _body(b"[" + b" " * (requests.MOST_BODY - 2) + b"]"),
        "lines that are no JSON": lambda: _body(
            _RECORD + b"\n" + b"\n".join([b"{" * 200] * (MOST_REQUESTS - 1)), requests.NDJSON
        ),
    },
    beyond={
        "bytes": lambda: _body(_padded(b"[]", requests.MOST_BODY + 1)),
        "requests": lambda: _body(_array(b"{}", MOST_REQUESTS + 1)),
        "nesting": lambda: _body(b"[" * requests.MOST_BODY),
        "bytes of a request": lambda: _body(b'{"n":"' + b"a" * MOST_CHARACTERS + b'"}'),
        "type": lambda: _body(b"{}", "text/plain"),
        "packing": lambda: _request(
            b"Content-Encoding: gzip",
            b"Content-Type: application/json",
            method=b"POST",
            path=requests.PATH.encode(),
            body=b"{}",
        ),
    },
)


async def _connected(data: bytes) -> int:
    """Open a number of silent connections, in decimal, from one address.

    Raises:
        RejectedError: one of them was ended.
    """
    async with _served() as port:
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(int(data))]
        try:
            for _ in range(200):
                await asyncio.sleep(0)
            # One more that asks shows that connections are taken; it ends one if there is no room.
            if int(data) < MOST_CONNECTIONS and not await _exchange(port, _request()):
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
    kind="socket",
    controlled_by="a client of the port",
    bytes="10 KiB a connection, 280 KiB with TLS",
    items=f"{MOST_CONNECTIONS}, and as many of unix sockets",
    time="one accepted in each round of the event loop",
    addresses="nothing",
    beyond_bounds="the address with most connections makes room: connections_full, once",
    read=_connected,
    worst={"as many as are taken": lambda: b"%d" % MOST_CONNECTIONS},
    beyond={"connections": lambda: b"%d" % (MOST_CONNECTIONS + 1)},
)


class _Tls(Plain):
    """TLS with a certificate of an authority that was made for this."""

    @cache  # noqa: B019  one for the process
    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("localhost").configure_cert(context)
        return context


def _client_hello(names: int = 1) -> bytes:
    context, out = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([f"protocol-{name:03}" + "x" * 200 for name in range(names)])
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError


async def _greeted(data: bytes) -> bytes:
    async with _served(_Tls()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            answer = await reader.read(1)
        except ConnectionError:
            answer = b""
        finally:
            writer.transport.abort()
    if answer != b"\x16":  # a handshake, rather than an alert
        raise RejectedError("the connection was ended")
    return answer


_HANDSHAKE: Final = Row(
    name="TLS handshake",
    kind="socket",
    controlled_by="a client of the port, with TLS",
    bytes="16 KiB a record, as OpenSSL has it",
    items=f"{MOST_CONNECTIONS}, the connections",
    time=f"2 ms in one go for the server's signature; {HANDSHAKE_SECONDS:.0f} s for all of it",
    addresses="nothing",
    beyond_bounds="the connection is ended; no log line",
    read=_greeted,
    worst={"a hello": _client_hello, "a hello with 70 names": partial(_client_hello, 70)},
    beyond={
        "no handshake": _request,
        "a record that is none": lambda: b"\x16\x03\x01\xff\xff" + b"\0" * 70_000,
    },
)


async def _environment(data: bytes) -> object:
    name, _, value = data.decode().partition("=")
    try:
        found = parse(["run"], {name: value})
        return AllowedHosts.parse(found.web_allowed_hosts or ())
    except (UsageError, ValueError) as error:
        raise RejectedError(str(error)) from None


def _variable(name: str, value: str) -> Callable[[], bytes]:
    return f"SPEC_DECODE_EXPORTER_{name}={value}".encode


_ENVIRONMENT: Final = Row(
    name="SPEC_DECODE_EXPORTER_* variables",
    kind="environment",
    controlled_by="the operator",
    bytes="as many as the system allows in a variable: 128 KiB",
    items="one value, or values with commas between them",
    time="read once, at the start",
    addresses="what the flags may: targets, files, listen addresses",
    beyond_bounds="the program ends with status 1 and a line that names the variable or the flag",
    read=_environment,
    worst={
        "as many hosts as a variable holds": _variable("WEB_ALLOWED_HOSTS", "a.b," * 32_000),
        "as many targets": _variable("TARGET", "a:1," * 32_000),
    },
    beyond={
        "a switch": _variable("WEB_ENABLE_LIFECYCLE", "maybe"),
        "a host name": _variable("WEB_ALLOWED_HOSTS", "http://exporter"),
    },
)

ROWS: Final = (
    _CONNECTIONS,
    _HANDSHAKE,
    _HEAD,
    _ACCEPT,
    _AUTHORIZATION,
    _HOSTS,
    _API_QUERY,
    _PAGE_QUERY,
    _LAST_EVENT,
    _OTHER_BODY,
    _REQUESTS,
    _ENVIRONMENT,
)
