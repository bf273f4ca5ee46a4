"""Untrusted inputs of connections and authentication, and the environment's variables."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Callable
from functools import cache, partial
from typing import Final

import bcrypt
import trustme
from pydantic import SecretStr

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.hosts import AllowedHosts
from spec_decode_exporter.web.security import (
    MAX_CHECKS_PER_CLIENT,
    Passwords,
    TooManyChecksError,
    _credentials,
)
from spec_decode_exporter.web.server import MAX_CONNECTIONS, Tls
from tests.robustness.inputs.port import answered, exchange, header, request, served
from tests.robustness.inputs.row import RejectedError, Row

_ALLOWED: Final = "exporter.example.com"


@cache
def _users() -> dict[str, SecretStr]:
    return {"prometheus": SecretStr(bcrypt.hashpw(b"r" * 72, bcrypt.gensalt(4)).decode())}


async def _authorized(data: bytes) -> bool:
    """Check simultaneous ``Authorization`` headers of one address, one a line; the last must pass."""
    passwords, checks = Passwords(), []
    for line in data.decode("latin-1").splitlines():
        given = _credentials(line)
        if given is None:
            raise RejectedError("Unauthorized")
        checks.append(asyncio.create_task(passwords.match(_users(), *given, "10.0.0.1")))
    *_, last = await asyncio.gather(*checks, return_exceptions=True)
    if isinstance(last, TooManyChecksError):
        raise RejectedError("Too many passwords wait to be checked")
    if last is not True:
        raise RejectedError("Unauthorized")
    return True


def _basic(password: bytes) -> bytes:
    return b"Basic " + b64encode(b"prometheus:" + password) + b"\n"


_AUTHORIZATION: Final = Row(
    name="Authorization",
    read=_authorized,
    worst={
        "the longest password": lambda: _basic(b"r" * 6000),
        "a right password behind as many guesses as wait": lambda: (
            b"".join(_basic(b"%d" % guess) for guess in range(MAX_CHECKS_PER_CLIENT - 1)) + _basic(b"r" * 72)
        ),
    },
    beyond={
        "passwords that wait": lambda: (
            b"".join(_basic(b"%d" % guess) for guess in range(MAX_CHECKS_PER_CLIENT)) + _basic(b"r" * 72)
        ),
        "another scheme": lambda: b"Bearer " + b"a" * 8000 + b"\n",
    },
)

_HOSTS: Final = Row(
    name="Host, Origin and Sec-Fetch-Site",
    read=partial(answered, allowed_hosts=AllowedHosts.parse([_ALLOWED, "*.svc.cluster.local"])),
    worst={
        "the longest name": lambda: request().replace(b"localhost", b"a." * 117 + b"svc.cluster.local:7732"),
        "an origin of the longest line, without a change": lambda: request(header(b"Origin", 8000)),
        "the own origin": lambda: request(
            b"Origin: http://localhost", b"Sec-Fetch-Site: same-origin", method=b"POST", path=b"/-/reload"
        ),
    },
    beyond={
        "host": lambda: request().replace(b"localhost", b"evil.example"),
        "one Host": lambda: request(b"Host: evil.example"),
        "origin": lambda: request(b"Origin: https://evil.example", method=b"POST", path=b"/-/reload"),
        "site": lambda: request(b"Sec-Fetch-Site: cross-site", method=b"POST", path=b"/-/reload"),
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
            if int(data) < MAX_CONNECTIONS and not await exchange(port, request()):
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
    worst={"as many as are taken": lambda: b"%d" % MAX_CONNECTIONS},
    beyond={"connections": lambda: b"%d" % (MAX_CONNECTIONS + 1)},
)


@cache
def _context() -> ssl.SSLContext:
    """Return a context with a certificate of a temporary authority."""
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
    async with served(Tls(_context)) as port:
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
    read=_greeted,
    worst={"a hello": _client_hello, "a hello with 70 names": partial(_client_hello, 70)},
    beyond={
        "no handshake": request,
        "a record that is none": lambda: b"\x16\x03\x01\xff\xff" + b"\0" * 70_000,
    },
)


async def _environment(data: bytes) -> object:
    name, _, value = data.decode().partition("=")
    try:
        found = parse(["run"], {name: value})
        return AllowedHosts.parse(found.web_allowed_hosts or ())
    except UsageError as error:
        raise RejectedError(str(error)) from None


def _variable(name: str, value: str) -> Callable[[], bytes]:
    return f"SPEC_DECODE_EXPORTER_{name}={value}".encode


_ENVIRONMENT: Final = Row(
    name="SPEC_DECODE_EXPORTER_* variables",
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

ROWS: Final = (_CONNECTIONS, _HANDSHAKE, _AUTHORIZATION, _HOSTS, _ENVIRONMENT)
