"""HTTP server: aiohttp's connections with limits of their number and of time, on TCP and unix sockets.

aiohttp limits the lines of a request's head. It has no limit of the number of connections, nor of the time
for a head and for a client to read its response. With these limits, clients cannot exhaust the descriptors
and memory that the polls need.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import re
import resource
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from spec_decode_exporter.core.tasks import cancel, spawn, yield_to_event_loop
from spec_decode_exporter.core.urls import MAX_PORT
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.web.limits import (
    DEFAULT_HEADERS,
    INTERNAL_ERROR,
    counted_address,
    error_response,
)

if TYPE_CHECKING:
    import ssl

UNIX_PREFIX: Final = "unix:"
UNIX_MODE: Final = 0o660
"""Permissions of a unix socket's file. It belongs to the exporter's user and group."""
MAX_CONNECTIONS: Final = 128
"""With TLS, each connection takes a third of a megabyte."""
RESERVED: Final = 16
"""Descriptors of the process for polls and files. With fewer free ones, the limit is lower."""
SCARCE_CONNECTIONS: Final = 3
"""The lower limit."""
MAX_LINE_BYTES: Final = 8190
"""Of a request line, and of a header with its name."""
MAX_HEADERS: Final = 64
MAX_HEAD_BYTES: Final = 32 * 1024
"""Of a request's head, and of requests that a client sends ahead."""
HANDSHAKE_SECONDS: Final = 10.0
"""For a TLS handshake."""
HEAD_SECONDS: Final = 10.0
"""For the head of a request from its first byte, or of the first request from the connection's begin."""
STALLED_SECONDS: Final = 30.0
"""For a client to read what was sent."""
SLOW_SECONDS: Final = 2.0
"""With an active request, after which a new connection of the same address may replace this one."""
IDLE_SECONDS: Final = 180.0
"""Between two requests: longer than usual scrape intervals, so that Prometheus keeps its connection."""
RECEIVE_BYTES: Final = 16 * 1024
"""Bytes per read from a connection: asyncio's 256 KiB would hold many requests ahead of the first."""
DRAIN_SECONDS: Final = 3.0
"""For active requests to finish after the server stops listening."""
PAUSE: Final = 0.1
"""Seconds to wait after an internal error, or if the process has no free descriptor and no connection."""
LOG_AGAIN_SECONDS: Final = 60.0
"""Seconds between two lines of the log about the same event."""

_OPTIONS: Final[dict[str, Any]] = {
    "access_log": None,
    "auto_decompress": False,
    "keepalive_timeout": IDLE_SECONDS,
    "logger": logging.getLogger("spec_decode_exporter.web"),
    "lingering_time": 0.2,  # for the rest of a body that no handler reads: 40 places at 200 a second
    "max_field_size": MAX_LINE_BYTES,
    "max_headers": MAX_HEADERS,
    "max_line_size": MAX_LINE_BYTES,
    "read_bufsize": RECEIVE_BYTES,
}
_BACKLOG: Final = 100
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:\[\]/@]*)):(?P<port>\d{1,5})", re.ASCII
)
_CAUSES: Final = {
    errno.EADDRINUSE: "the port is in use; stop the program that uses it",
    errno.EADDRNOTAVAIL: "no interface of this machine has this address",
    errno.EACCES: "this user may not use this port",
}
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BROKEN: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})
"""Errors of the listening socket. All others are errors of one connection."""
_TEXTS: Final = {
    HTTPStatus.BAD_REQUEST: "The request is not valid HTTP/1.1.",
    HTTPStatus.EXPECTATION_FAILED: "The only supported expectation is `Expect: 100-continue`.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: f"The head is longer than {MAX_HEAD_BYTES} bytes.",
    HTTPStatus.INTERNAL_SERVER_ERROR: INTERNAL_ERROR,
}

_log = structlog.get_logger()


class ListenError(ExporterError):
    """An address that cannot be listened on; the text names the address and the remedy."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host, empty for all interfaces, and a port, 0 for any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """The path of a unix socket: for owner and group of its file, without TLS. Passwords apply as on TCP."""

    path: Path

    def __str__(self) -> str:
        return f"{UNIX_PREFIX}{self.path}"


Address = ListenAddress | UnixAddress


def parse_listen_address(value: str) -> ListenAddress:
    """Parse an address such as ``:7732``, ``0.0.0.0:7732``, ``[::1]:7732`` or ``localhost:7732``.

    Raises:
        ListenError: The text is not an address.
    """
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > MAX_PORT:
        raise ListenError(
            f"{value!r} is not an address to listen on: write host:port, [IPv6]:port or :port for all"
            f" interfaces, with a port up to {MAX_PORT}, such as :7732"
        )
    return ListenAddress(match["ipv6"] or match["host"], int(match["port"]))


def parse_address(value: str) -> Address:
    """Parse a TCP address, or the path of a unix socket such as ``unix:/run/exporter.sock``.

    Raises:
        ListenError: The text is neither.
    """
    if not value.startswith(UNIX_PREFIX):
        return parse_listen_address(value)
    path = value.removeprefix(UNIX_PREFIX)
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ListenError(
            f"{value!r} is not the path of a socket: write an absolute path, such as unix:/run/exporter.sock"
        )
    return UnixAddress(Path(path))


async def _bind(address: Address, undo: ExitStack) -> socket.socket:
    """Return a listening socket; ``undo`` closes it, and removes the file of a unix socket.

    Raises:
        ListenError: The address cannot be used.
    """
    try:
        if isinstance(address, UnixAddress):
            return _bind_path(address.path, undo)
        if not address.host:
            dual = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if dual else socket.AF_INET
            everywhere = socket.create_server(("", address.port), family=family, dualstack_ipv6=dual)
            return undo.enter_context(everywhere)
        resolved = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # One address, preferably IPv4: ``localhost`` is one socket, not two.
        family, *_, sockaddr = min(resolved, key=lambda info: info[0] != socket.AF_INET)
        return undo.enter_context(socket.create_server(sockaddr, family=family))
    except UnicodeError as error:  # the codec for host names
        raise ListenError(f"cannot listen on {address}: the host is not a valid name") from error
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0, error.strerror or str(error))
        other = "path" if isinstance(address, UnixAddress) else "address"
        raise ListenError(f"cannot listen on {address}: {cause}, or choose another {other}") from error


def _bind_path(path: Path, undo: ExitStack) -> socket.socket:
    """Listen on a path. The socket of an exporter that crashed is replaced, but nothing else."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            else:
                raise OSError("another program listens there; stop it")
    elif os.path.lexists(path):
        raise OSError(f"{path} exists and is not a socket; remove it")
    bound = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    bound.bind(str(path))
    undo.callback(_remove, path, os.lstat(path))
    path.chmod(UNIX_MODE)  # before any client can connect
    bound.listen(_BACKLOG)
    return bound


def _remove(path: Path, bound: os.stat_result) -> None:
    """Remove the file of a unix socket, unless it was replaced."""
    with suppress(OSError):
        if os.path.samestat(os.lstat(path), bound):
            path.unlink()


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of new connections, asked at the begin of each."""

    context: Callable[[], ssl.SSLContext | None] = lambda: None
    """Return the context; None without TLS."""
    admits: Callable[[asyncio.BaseTransport], bool] = lambda _transport: True
    """Return whether a client is accepted after the handshake."""


NO_TLS: Final = Tls()


class Connection(web.RequestHandler):
    """aiohttp's connection with limits of its bytes, and timers of its head and of unread responses."""

    def __init__(self, pool: Connections, server: web.Server) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **_OPTIONS)
        self.handshake: asyncio.Task[None] | None = None
        """The task that opens the connection; None once it is open."""
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._socket_transport: asyncio.Transport | None = None
        """Of the socket itself: without TLS, the same."""
        self._timers: dict[float, asyncio.TimerHandle] = {}
        """By their seconds."""
        self._request: web.BaseRequest | None = None
        self._begun = self._loop.time()
        """Time at which the last request began, or else the connection."""
        self._head_bytes = self._ahead = 0

    @property
    def is_idle(self) -> bool:
        """True without an active request. Once open, that is while aiohttp waits for the end of a head."""
        return self.handshake is not None or (self._waiter is not None and not self._waiter.done())

    @property
    def age(self) -> float:
        """Seconds since the last request began, or else the connection."""
        return self._loop.time() - self._begun

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the first head, unless the TLS settings reject the client."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  TCP and unix sockets have no other
        self.handshake, self._transport = None, transport
        super().connection_made(transport)
        if not self._pool.tls.admits(transport):
            self.abort()
        # Any unsent byte counts as unread. With TLS, asyncio counts only bytes that are not yet encrypted, so
        # the socket's own transport has the limit too; with a limit of 0, TLS pauses without any byte.
        tls = getattr(transport, "_ssl_protocol", None)
        self._socket_transport = tls._transport if tls else transport  # noqa: SLF001
        transport.set_write_buffer_limits(1)
        self._socket_transport.set_write_buffer_limits(0)
        self._socket_transport.max_size = RECEIVE_BYTES  # type: ignore[union-attr]
        self._start(HEAD_SECONDS, self.abort)

    def data_received(self, data: bytes) -> None:
        """Pass data to aiohttp; close the connection if a head, or what was sent ahead, is too long."""
        is_ahead = self._request is not None and self._request.content.is_eof()
        self._ahead += len(data) if is_ahead else 0
        if self._ahead > MAX_HEAD_BYTES:
            self.abort()
            return
        super().data_received(data)
        self._pool.touch(self)
        self._head_bytes = self._head_bytes + len(data) if self.is_idle else 0
        if self._head_bytes:
            self._start(HEAD_SECONDS, self.abort)
        else:
            self._stop(HEAD_SECONDS)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.abort()

    def pause_writing(self) -> None:
        """Start the timer of unread data."""
        super().pause_writing()
        self._start(STALLED_SECONDS, self._abort_unread)

    def resume_writing(self) -> None:
        """Stop the timer: the client has read all data."""
        super().resume_writing()
        if not self._unread_bytes:
            self._stop(STALLED_SECONDS)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timers and free the connection's place."""
        for seconds in tuple(self._timers):
            self._stop(seconds)
        self._pool.discard(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection immediately, with its unsent data."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    async def answer(
        self, request: web.BaseRequest, handler: Callable[[web.BaseRequest], Any]
    ) -> web.StreamResponse:
        """Return the response to a request, which is active meanwhile.

        The connection ends after it if the client has sent requests ahead: they have no limit of time.
        """
        self._request, self._begun, self._ahead = request, self._loop.time(), 0
        if not self._unread_bytes:
            self._stop(STALLED_SECONDS)
        try:
            wrong = _mistake(request)
            response: web.StreamResponse = _error(wrong) if wrong else await handler(request)
        except web.HTTPException as error:
            response = error
        finally:
            self._request = None
            self._start(STALLED_SECONDS, self._abort_unread)
        is_ahead = self._ahead or self._messages
        if is_ahead or not request.content.is_eof() or not self._pool.has_spare:
            response.force_close()
        if isinstance(response, web.HTTPException):
            raise response
        return response

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to an invalid request, or to one that failed before its handler.

        aiohttp's own response repeats a part of the request, and names the versions of aiohttp and Python.

        Raises:
            ConnectionError: A response has begun already.
        """
        super().handle_error(request, status, exc, message)  # it logs the error
        return _error(HTTPStatus(status))

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ANN401  as in aiohttp
        """Log an internal error; count an error of the client, with which clients could fill the log."""
        error = kw.get("exc_info")
        if isinstance(error, (web.RequestPayloadError, ConnectionError)):
            if count := self._pool.due("requests_incomplete"):
                _log.warning("requests_incomplete", reason=type(error).__name__, count=count)
        elif not isinstance(error, HttpProcessingError):
            super().log_exception(*args, **kw)

    def _abort_unread(self) -> None:
        """Close the connection if its client has not read everything that was sent."""
        self._stop(STALLED_SECONDS)
        if self._unread_bytes:
            self.abort()

    @property
    def _unread_bytes(self) -> int:
        return self._socket_transport.get_write_buffer_size() if self._socket_transport else 0

    def _start(self, seconds: float, action: Callable[[], None]) -> None:
        """Do the action after ``seconds``, unless that timer runs already or the connection is closed."""
        if seconds not in self._timers and self.transport is not None:
            self._timers[seconds] = self._loop.call_later(seconds, action)

    def _stop(self, seconds: float) -> None:
        if timer := self._timers.pop(seconds, None):
            timer.cancel()


def _mistake(request: web.BaseRequest) -> HTTPStatus | None:
    """Return the status of a request that no handler gets.

    aiohttp's response to an unknown expectation repeats the header, and fails if that is not UTF-8.
    """
    if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
        return HTTPStatus.EXPECTATION_FAILED
    if sum(len(name) + len(value) + 4 for name, value in request.raw_headers) > MAX_HEAD_BYTES:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return None


def _error(status: HTTPStatus) -> web.Response:
    return error_response(status, _TEXTS.get(status, status.phrase), headers=DEFAULT_HEADERS, close=True)


class Connections:
    """Open connections. At the limit a new one replaces one of the address that has the most."""

    def __init__(self, server: web.Server, tls: Tls, limit: int) -> None:
        """Open at most ``limit`` connections, each with TLS if ``tls`` has a context."""
        self._server = server
        self._limit = limit
        self.tls = tls
        self._open: dict[Connection, str] = {}
        """Address that the client is counted by, the longest without data first."""
        self._logged: dict[str, tuple[float, int]] = {}
        """By event of the log: the time of its last line, and the number of times since then."""
        self._spare = os.open(os.devnull, os.O_RDONLY)
        """Descriptor that is closed to accept a connection when no other is free; -1 meanwhile."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def has_spare(self) -> bool:
        """False while a connection has the spare descriptor."""
        return self._spare >= 0

    def touch(self, connection: Connection) -> None:
        """Make a connection the last to be replaced."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def discard(self, connection: Connection) -> None:
        """Remove a closed connection. Its descriptor is free in the next round, and may be the spare one."""
        self._open.pop(connection, None)
        if not self.has_spare:
            asyncio.get_running_loop().call_soon(self._take_spare)

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections for ever. No error of one connection, and no internal error, ends this."""
        while True:
            try:
                accepted, peer = await asyncio.get_running_loop().sock_accept(listening)
                self._take_spare()
                self._admit(accepted, counted_address(peer))
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    await self._free_descriptor(error)
                elif error.errno in _BROKEN:
                    await self._pause(error)
            except Exception as error:  # noqa: BLE001  it is logged with its traceback
                await self._pause(error)
            await yield_to_event_loop()  # a flood of connections must not block other tasks

    async def close(self) -> None:
        """Cancel handshakes."""
        await cancel([each.handshake for each in self._open])
        self._give_spare()
        self._is_closed = True

    def _admit(self, accepted: socket.socket, address: str) -> None:
        # The system assigns the lowest free number: a high one shows that few are free.
        is_scarce = 0 < resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= accepted.fileno() + RESERVED
        if len(self._open) >= (SCARCE_CONNECTIONS if is_scarce else self._limit):
            if is_scarce:
                self._not_taken(os.strerror(errno.EMFILE))
            elif count := self.due("connections_full"):
                _log.warning("connections_full", connections=len(self), count=count)
            if not self._replace(self._candidates(address)):
                accepted.close()
                return
        try:
            connection = Connection(self, self._server)
        except Exception:
            accepted.close()
            raise
        self._open[connection] = address
        connection.handshake = asyncio.create_task(self._connect(connection, accepted))
        # A callback, because a task that is cancelled before its first step runs no code of its own.
        connection.handshake.add_done_callback(partial(self._connected, connection, accepted))

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        context, loop = self.tls.context(), asyncio.get_running_loop()
        if context is None:
            await loop.connect_accepted_socket(lambda: connection, accepted)
            return
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await _readable(accepted)  # so that silent clients take no memory for TLS
            self.touch(connection)
            await loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_shutdown_timeout=HANDSHAKE_SECONDS
            )

    def _connected(
        self, connection: Connection, accepted: socket.socket, handshake: asyncio.Task[None]
    ) -> None:
        error = asyncio.CancelledError() if handshake.cancelled() else handshake.exception()
        if error is None:
            return
        self.discard(connection)
        accepted.close()
        if not isinstance(error, (OSError, asyncio.CancelledError)):  # these are errors of the client
            _log.error("task_died", exc_info=error)

    def _candidates(self, address: str) -> Iterator[Connection]:
        """Yield connections that a new one from ``address`` may replace, the best first.

        The address with the most connections comes first; one with no more than the new client's never loses
        any. An address loses its longest idle connection. If all are busy, it loses one only if the new
        client's address would still have fewer: a slow one before the longest without data. The new client's
        own address loses idle and slow connections only.
        """
        counts = Counter(self._open.values())
        for other, count in counts.most_common():
            theirs = [each for each, its in self._open.items() if its == other]
            if count > counts[address] or other == address:
                yield from (each for each in theirs if each.is_idle)
            if count > counts[address] + 1 or other == address:
                yield from (each for each in theirs if each.age >= SLOW_SECONDS)
            if count > counts[address] + 1:
                yield from theirs

    def _replace(self, candidates: Iterator[Connection]) -> bool:
        """Close the first of the candidates; return whether there was one."""
        connection = next(candidates, None)
        if connection is None:
            return False
        self.discard(connection)
        connection.abort()
        return True

    async def _free_descriptor(self, error: OSError) -> None:
        """Make room for one more connection: by the spare descriptor, or by closing a connection."""
        self._not_taken(error.strerror)
        if self.has_spare:
            self._give_spare()
        elif self._replace(
            each for each in self._open if each.age >= (PAUSE if each.is_idle else SLOW_SECONDS)
        ):
            await yield_to_event_loop()  # the transport closes its socket in the next round
        else:
            await asyncio.sleep(PAUSE)

    def _give_spare(self) -> None:
        if self.has_spare:
            os.close(self._spare)
            self._spare = -1

    def _take_spare(self) -> None:
        if not self.has_spare and not self._is_closed:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    async def _pause(self, error: Exception) -> None:
        if count := self.due("connection_failed"):
            _log.error("connection_failed", count=count, exc_info=error)
        await asyncio.sleep(PAUSE)

    def _not_taken(self, reason: str | None) -> None:
        if count := self.due("connections_not_taken"):
            _log.warning("connections_not_taken", connections=len(self), reason=reason, count=count)

    def due(self, event: str) -> int:
        """Count an event; return the number since its last line of the log, 0 within a minute of that."""
        now, (logged_at, count) = asyncio.get_running_loop().time(), self._logged.get(event, (-math.inf, 0))
        is_due = now - logged_at > LOG_AGAIN_SECONDS
        self._logged[event] = (now, 0) if is_due else (logged_at, count + 1)
        return count + 1 if is_due else 0


async def _readable(accepted: socket.socket) -> None:
    """Wait until a client has sent a byte or closed the connection."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(accepted, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(accepted)


@dataclass(slots=True)
class Server:
    """A running server."""

    urls: tuple[str, ...]
    """A URL for each address, with the real port."""
    connections: Connections
    """Connections of TCP."""
    _local: Connections
    """Connections of unix sockets: remote clients cannot use up those of local ones."""
    _runner: web.AppRunner
    _undo: ExitStack
    _accepting: list[asyncio.Task[None]] = field(default_factory=list)

    def accept(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections from listening sockets, until ``close``."""
        for each in sockets:
            each.setblocking(False)
            pool = self._local if each.family == socket.AF_UNIX else self.connections
            self._accepting.append(spawn(pool.accept(each)))

    async def close(self) -> None:
        """Stop listening, and wait at most ``DRAIN_SECONDS`` for active requests."""
        await cancel(self._accepting)
        await self.connections.close()
        await self._local.close()
        self._undo.close()
        await self._runner.cleanup()


async def serve(
    app: web.Application, addresses: Sequence[Address], tls: Tls = NO_TLS, limit: int = MAX_CONNECTIONS
) -> Server:
    """Listen on all the addresses or, with ListenError, on none; accept ``limit`` connections."""
    addresses = sorted(addresses, key=lambda each: isinstance(each, UnixAddress))  # URLs first
    with ExitStack() as undo:
        sockets = [await _bind(address, undo) for address in addresses]
        runner = web.AppRunner(app, shutdown_timeout=DRAIN_SECONDS)
        await runner.setup()
        assert runner.server is not None  # noqa: S101  the setup creates it
        handler = runner.server.request_handler
        runner.server.request_handler = lambda request: request.protocol.answer(request, handler)  # type: ignore[attr-defined]
        scheme = "https" if tls.context() else "http"
        server = Server(
            tuple(_url(scheme, *each) for each in zip(addresses, sockets, strict=True)),
            Connections(runner.server, tls, limit),
            Connections(runner.server, NO_TLS, limit),
            runner,
            undo.pop_all(),
        )
    server.accept(sockets)
    return server


def _url(scheme: str, address: Address, bound: socket.socket) -> str:
    """Return a URL that a browser on this machine can open; for a unix socket, its address."""
    if isinstance(address, UnixAddress):
        return str(address)
    host = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(address.host, address.host)
    return f"{scheme}://{ListenAddress(host, bound.getsockname()[1])}/"
