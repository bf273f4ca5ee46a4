"""HTTP server: aiohttp's connections with limits of their number and of time, on TCP and unix sockets.

aiohttp limits the lines of a request's head. It has no limit of the number of connections, nor of the time
for a head and for a client to read its response. Here each connection has a stage and a deadline, which a
task checks every second. So clients cannot exhaust the descriptors and memory that the polls need.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import math
import os
import re
import socket
import ssl
import termios
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from enum import IntEnum
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import structlog
from aiohttp import StreamReader, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from spec_decode_exporter.core.tasks import cancel, spawn
from spec_decode_exporter.core.urls import MAX_PORT
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.web.limits import DEFAULT_HEADERS, INTERNAL_ERROR, MAX_CONNECTIONS, error_response

UNIX_PREFIX: Final = "unix:"
MAX_HEAD_BYTES: Final = 32 * 1024  # of an unfinished head: no more is read; aiohttp bounds its lines
HEAD_SECONDS: Final = 10.0  # for a first head with its TLS handshake, and for a later one from its first byte
ANSWER_SECONDS: Final = 40.0  # to wait for a place, to render, and to send what is sent in a place
UNREAD_SECONDS: Final = 30.0  # for a client to read the rest of a response
IDLE_SECONDS: Final = 75.0  # between two requests: a scrape each minute keeps its connection
DRAIN_SECONDS: Final = 3.0  # for active requests to finish after the server stops listening
SWEEP_SECONDS: Final = 1.0
PAUSE: Final = 0.05  # before the next attempt to make room for a connection
LOG_AGAIN_SECONDS: Final = 60.0

_OPTIONS: Final[dict[str, Any]] = {
    "access_log": None,
    "auto_decompress": False,
    "keepalive_timeout": IDLE_SECONDS,
    "logger": logging.getLogger("spec_decode_exporter.web"),
    "lingering_time": 0.2,  # for the rest of a body that no handler reads
    "read_bufsize": 16 * 1024,
}
_RECEIVE_BYTES: Final = 32 * 1024  # a read returns at most twice that, which aiohttp parses at once
_SEND_BYTES: Final = 16 * 1024  # unsent bytes of a response, after which its next piece waits
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:\[\]/@]*)):(?P<port>\d{1,5})", re.ASCII
)
_CAUSES: Final = {
    errno.EADDRINUSE: "the port is in use; stop the program that uses it",
    errno.EADDRNOTAVAIL: "no interface of this machine has this address",
    errno.EACCES: "this user may not use this port",
}
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_TEXTS: Final = {
    HTTPStatus.BAD_REQUEST: "The request is not valid HTTP/1.1.",
    HTTPStatus.EXPECTATION_FAILED: "The only supported expectation is `Expect: 100-continue`.",
    HTTPStatus.INTERNAL_SERVER_ERROR: INTERNAL_ERROR,
}

_log = structlog.get_logger()


class ListenError(ExporterError):
    """An address that cannot be listened on; the text names the address and the remedy."""


class ListenAddress(NamedTuple):
    """A host, empty for all interfaces, and a port, 0 for any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Address = ListenAddress | Path
"""A path is that of a unix socket: for owner and group of its file, without TLS, but with passwords."""


def parse_listen_address(value: str) -> ListenAddress:
    """Parse an address such as ``:7732``, ``[::1]:7732`` or ``localhost:7732``, or raise ListenError."""
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > MAX_PORT:
        raise ListenError(
            f"{value!r} is not an address to listen on: write host:port, [IPv6]:port or :port for all"
            f" interfaces, with a port up to {MAX_PORT}, such as :7732"
        )
    return ListenAddress(match["ipv6"] or match["host"], int(match["port"]))


def parse_address(value: str) -> Address:
    """Parse a TCP address, or the path of a unix socket such as ``unix:/a.sock``, or raise ListenError."""
    if not value.startswith(UNIX_PREFIX):
        return parse_listen_address(value)
    path = value.removeprefix(UNIX_PREFIX)
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ListenError(
            f"{value!r} is not the path of a socket: write an absolute path, such as unix:/run/exporter.sock"
        )
    return Path(path)


async def _bind(address: Address, undo: ExitStack) -> socket.socket:
    """Return a listening socket, or raise ListenError; ``undo`` closes it and removes its file."""
    try:
        if isinstance(address, Path):
            return _bind_path(address, undo)
        where: Any = ("", address.port)
        dual = not address.host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        if address.host:  # one address, preferably IPv4: ``localhost`` is one socket, not two
            host: str | bytes = address.host
            with suppress(ValueError):  # without the codec for names, which takes 0.4 MB
                host = str(ip_address(address.host)).encode()
            loop = asyncio.get_running_loop()
            resolved = await loop.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
            family, *_, where = min(resolved, key=lambda info: info[0] != socket.AF_INET)
        return undo.enter_context(socket.create_server(where, family=family, dualstack_ipv6=dual))
    except UnicodeError as error:  # the codec for host names
        raise ListenError(f"cannot listen on {address}: the host is not a valid name") from error
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0, error.strerror or str(error))
        other = "path" if isinstance(address, Path) else "address"
        raise ListenError(f"cannot listen on {_text(address)}: {cause}, or choose another {other}") from error


def _bind_path(path: Path, undo: ExitStack) -> socket.socket:
    """Listen on a path. The socket of an exporter that crashed is replaced, but nothing else."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) != errno.ECONNREFUSED:
                raise OSError("another program listens there; stop it")
        path.unlink(missing_ok=True)
    elif os.path.lexists(path):
        raise OSError(f"{path} exists and is not a socket; remove it")
    bound = undo.enter_context(socket.socket(socket.AF_UNIX))
    bound.bind(str(path))
    undo.callback(path.unlink, missing_ok=True)
    path.chmod(0o660)  # for the exporter's user and group, before any client can connect
    bound.listen()
    return bound


def _text(address: Address) -> str:
    return f"{UNIX_PREFIX}{address}" if isinstance(address, Path) else str(address)


class Tls(NamedTuple):
    """TLS of new connections, asked at the begin of each."""

    context: Callable[[], ssl.SSLContext | None] = lambda: None  # None without TLS
    admits: Callable[[asyncio.BaseTransport], bool] = lambda _transport: True  # after the handshake


NO_TLS: Final = Tls()


class Stage(IntEnum):
    """What a connection is doing; at the limit, those of a lower stage are replaced first."""

    IDLE = 0  # no byte of a request has arrived
    BEGUN = 1  # a TLS handshake or a head has begun
    ACTIVE = 2  # a request has no answer yet


KEPT_SECONDS: Final = {Stage.IDLE: 0.05, Stage.BEGUN: 0.25, Stage.ACTIVE: 2.0}
"""Before a new connection may replace one: a request begins, and a handshake ends, in a flood of others."""


class Connection(web.RequestHandler):
    """aiohttp's connection with a stage, its deadline, and a limit of the bytes outside of bodies."""

    def __init__(self, server: Server, manager: web.Server) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), **_OPTIONS)
        self.opening: asyncio.Task[None] | None = None  # until it is open, or closed before
        self.wire: asyncio.Transport | None = None  # once it is open; aiohttp's own is None while it closes
        self._server = server
        self._body: StreamReader | None = None
        self._head_bytes = 0  # outside of bodies, since the last request began
        self._enter(Stage.IDLE, HEAD_SECONDS)

    def _enter(self, stage: Stage, seconds: float) -> None:
        self.stage, self.since = stage, asyncio.get_running_loop().time()
        self._deadline = self.since + seconds

    def is_overdue(self, now: float) -> bool:
        """Return whether its deadline has passed at the time ``now``, or its client does not read."""
        if self.stage is Stage.IDLE and self.wire is not None and now > self.since + UNREAD_SECONDS:
            return now > self._deadline or _is_unread(self.wire)
        return now > self._deadline

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless the TLS settings reject the client."""
        self.wire = cast("asyncio.Transport", transport)  # TCP and unix sockets have no other
        self.wire.set_write_buffer_limits(_SEND_BYTES)
        super().connection_made(transport)
        has_tls = transport.get_extra_info("sslcontext") is not None  # a unix socket never has it
        if has_tls and not self._server.tls.admits(transport):
            self.end()

    def data_received(self, data: bytes) -> None:
        """Pass data to aiohttp, unless its head is too long or the answer before it is pending."""
        if data and (self._body is None or self._body.is_eof()):  # without data aiohttp goes on with a body
            if self.stage is Stage.ACTIVE and self.wire is not None:
                # aiohttp would queue requests: megabytes of heads. The response is the last one here.
                self.close()
                self.wire.pause_reading()
                return
            if self._head_bytes > MAX_HEAD_BYTES:
                self.end()
                return
            self._head_bytes += len(data)
            self.stage = Stage.BEGUN  # since the same time as before: a slow head is replaced first
            self._deadline = min(self._deadline, asyncio.get_running_loop().time() + HEAD_SECONDS)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Free the connection's place."""
        self._server.connections.discard(self)
        super().connection_lost(exc)

    def end(self) -> None:
        """Close the connection immediately, with its unsent data."""
        if self.wire is not None:
            self.wire.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def begin(self, body: StreamReader) -> None:
        """Note the end of a head. A request that came in one read with another is the last."""
        if not self._head_bytes:
            self.close()
        self._body, self._head_bytes = body, 0
        self._enter(Stage.ACTIVE, ANSWER_SECONDS)

    async def answer(
        self, request: web.BaseRequest, handler: Callable[[web.BaseRequest], Any]
    ) -> web.StreamResponse:
        """Return the response to a request, which is active meanwhile."""
        try:
            # aiohttp's response to an unknown expectation repeats the header, and fails if that is not UTF-8.
            if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
                return _error(HTTPStatus.EXPECTATION_FAILED)
            return cast("web.StreamResponse", await handler(request))
        finally:
            self._enter(Stage.IDLE, IDLE_SECONDS)

    def handle_error(self, request: web.BaseRequest, status: int = 500, *more: Any) -> web.StreamResponse:  # noqa: ANN401
        """Return the response to an invalid request, or to one that failed before its handler.

        aiohttp's own response repeats a part of the request, and names the versions of aiohttp and Python.
        """
        super().handle_error(request, status, *more)  # it logs the error
        return _error(HTTPStatus(status))

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ANN401  as in aiohttp
        """Log an internal error, but no error of the client, with which clients could fill the log."""
        error = kw.get("exc_info")
        if not isinstance(error, (web.RequestPayloadError, ConnectionError, HttpProcessingError)):
            super().log_exception(*args, **kw)


def _is_unread(transport: asyncio.Transport) -> bool:
    """Return whether a client has not taken all bytes: asyncio shows none that it has encrypted."""
    try:
        unsent = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # the system does not tell, or the socket is closed
        return transport.get_write_buffer_size() > 0
    return any(unsent)


def _error(status: HTTPStatus) -> web.Response:
    return error_response(status, _TEXTS.get(status, status.phrase), headers=DEFAULT_HEADERS, close=True)


class Server:
    """A running server. At its limit, a new connection replaces the oldest of the lowest stage."""

    def __init__(self, runner: web.AppRunner, tls: Tls, limit: int, undo: ExitStack) -> None:
        self.urls: Sequence[str] = ()  # of each address, with the real port
        self.connections: set[Connection] = set()
        self.tls = tls
        self._runner, self._limit, self._undo = runner, limit, undo
        self._tasks: list[asyncio.Task[None]] = []
        self._logged_at = -math.inf

    def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections from listening sockets, until ``close``."""
        manager = self._runner.server
        assert manager is not None  # noqa: S101  the setup creates it
        _note_requests(manager)
        for each in sockets:
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._tasks = [spawn(self._accept(each, manager)) for each in sockets]
        self._tasks.append(spawn(self._sweep()))

    async def close(self) -> None:
        """Stop listening, and wait at most ``DRAIN_SECONDS`` for active requests."""
        await cancel(self._tasks)
        self._undo.close()
        await cancel([each.opening for each in self.connections])
        await self._runner.cleanup()

    def end_overdue(self, now: float) -> None:
        """End the connections that are overdue at a time of the event loop."""
        for connection in [each for each in self.connections if each.is_overdue(now)]:
            connection.end()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.end_overdue(asyncio.get_running_loop().time())

    async def _accept(self, listening: socket.socket, manager: web.Server) -> None:
        """Accept connections for ever; no error of one connection ends this."""
        loop = asyncio.get_running_loop()
        while True:
            await _readable(listening)
            while len(self.connections) >= self._limit and not self._make_room("limit"):  # noqa: ASYNC110  by age
                await asyncio.sleep(PAUSE)
            try:
                accepted, _ = await loop.sock_accept(listening)
                self._admit(accepted, manager)
            except OSError as error:
                is_exhausted = error.errno in _EXHAUSTED
                await asyncio.sleep(0 if is_exhausted and self._make_room(str(error.strerror)) else PAUSE)

    def _admit(self, accepted: socket.socket, manager: web.Server) -> None:
        connection = Connection(self, manager)
        self.connections.add(connection)

        # A callback, because a task that is cancelled before its first step runs no code of its own.
        def opened(_task: asyncio.Task[None]) -> None:
            connection.opening = None
            if connection.wire is None:
                self.connections.discard(connection)
                accepted.close()

        connection.opening = spawn(self._open(connection, accepted))
        connection.opening.add_done_callback(opened)

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        context = None if accepted.family == socket.AF_UNIX else self.tls.context()
        loop = asyncio.get_running_loop()
        try:
            if context is None:
                await loop.connect_accepted_socket(lambda: connection, accepted)
                return
            await _readable(accepted)  # so that silent clients take no memory for TLS
            connection.stage = Stage.BEGUN
            await loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_shutdown_timeout=HEAD_SECONDS
            )
        except (OSError, asyncio.CancelledError) as error:  # of the handshake
            # Its traceback refers to asyncio's future of the handshake, and that to the error: without this,
            # 256 KiB of TLS would be in use until the next garbage collection.
            error.with_traceback(None)

    def _make_room(self, reason: str) -> bool:
        """End the connection that needs its place least; return False if all are too young."""
        now = asyncio.get_running_loop().time()
        if now > self._logged_at + LOG_AGAIN_SECONDS:
            self._logged_at = now
            _log.warning("connections_full", connections=len(self.connections), reason=reason)
        old = [each for each in self.connections if now >= each.since + KEPT_SECONDS[each.stage]]
        least = min(old, key=lambda each: (each.stage, each.since), default=None)
        if least is None:
            return False
        self.connections.discard(least)
        least.end()
        return True


def _note_requests(manager: web.Server) -> None:
    """Tell each connection when a head has ended, and when its request is answered.

    Python 3.11 starts a handler late, so it cannot itself note the end of the head.
    """
    make, handler = manager.request_factory, manager.request_handler

    def begin(message: Any, body: StreamReader, protocol: Any, *more: Any) -> web.BaseRequest:  # noqa: ANN401  as in aiohttp
        protocol.begin(body)
        return make(message, body, protocol, *more)

    manager.request_factory = begin
    manager.request_handler = lambda request: cast("Connection", request.protocol).answer(request, handler)


async def _readable(waiting: socket.socket) -> None:
    """Wait until a client has connected, sent a byte or closed the connection."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(waiting, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(waiting)


async def serve(
    app: web.Application, addresses: Sequence[Address], tls: Tls = NO_TLS, limit: int = MAX_CONNECTIONS
) -> Server:
    """Listen on all the addresses or, with ListenError, on none; accept ``limit`` connections."""
    addresses = sorted(addresses, key=lambda each: isinstance(each, Path))  # URLs first
    with ExitStack() as undo:
        sockets = [await _bind(address, undo) for address in addresses]
        runner = web.AppRunner(app, shutdown_timeout=DRAIN_SECONDS)
        await runner.setup()
        server = Server(runner, tls, limit, undo.pop_all())
    scheme = "https" if tls.context() else "http"
    server.urls = tuple(_url(scheme, *each) for each in zip(addresses, sockets, strict=True))
    server.start(sockets)
    return server


def _url(scheme: str, address: Address, bound: socket.socket) -> str:
    """Return a URL that a browser on this machine can open; for a unix socket, its address."""
    if isinstance(address, Path):
        return _text(address)
    host = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(address.host, address.host)
    return f"{scheme}://{ListenAddress(host, bound.getsockname()[1])}/"
