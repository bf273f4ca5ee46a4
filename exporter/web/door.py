"""The connections: how many there are, and how long each may take for what.

aiohttp answers requests. What it has no limits for is here, in front of it: the number of connections, those
included that are still at their TLS handshake; the time for a handshake, for the head of a request, and for a
client to read its answer. So whoever connects can take neither the descriptors nor the memory that the polls
need, and a client that is slow on purpose makes room for those who are not.
"""

from __future__ import annotations

import asyncio
import errno
import math
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

import structlog
from aiohttp import web

from exporter.tasks import spawn
from exporter.web.client_address import counted_address
from exporter.web.connection_table import ConnectionTable

if TYPE_CHECKING:
    import socket

    from aiohttp.typedefs import Handler

MOST_CONNECTIONS: Final = 128
"""With TLS, each takes a third of a megabyte while it lasts."""
HANDSHAKE_SECONDS: Final = 10.0
"""For a TLS handshake."""
HEAD_SECONDS: Final = 10.0
"""For the head of a request, from its first byte; for the first of a connection, from its beginning."""
STALLED_SECONDS: Final = 30.0
"""For a client to read what it was sent."""
SLOW_SECONDS: Final = 2.0
"""With a request in hand, or something to read, after which a connection may make room for another."""
MOST_HEAD: Final = 32 * 1024
"""Bytes of a request's head. aiohttp bounds its lines, and their number."""
IDLE_SECONDS: Final = 180.0
"""Between two requests: longer than the usual intervals of Prometheus, so that it need not connect anew."""

_END_OF_HEAD: Final = b"\r\n\r\n"
_PAUSE: Final = 1.0
"""Seconds to wait where the process has no descriptor left for another connection, or one met a defect."""
_TOLD_AGAIN_AFTER: Final = 60.0
"""Seconds that connections must have been taken, for the log to say again that they are not."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BROKEN: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})
"""What the listening socket itself is to blame for. Anything else is the connection's, and over with it."""

_log = structlog.get_logger()


class Tls(Protocol):
    """How connections are encrypted, as the configuration has it when they begin."""

    def context(self) -> ssl.SSLContext | None:
        """Return what a connection is answered with; None without TLS."""

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether a client may stay after the handshake."""


class Connection(asyncio.Protocol):
    """A connection, between its transport and the protocol that answers: it only watches the time."""

    def __init__(self, answering: asyncio.Protocol, door: Door) -> None:
        self._answering = answering
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._head: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._in_hand = False
        self._head_bytes = 0
        """Of the head that is under way; -1 if what comes is a body."""
        self._head_end = b""
        """The last bytes of a head that has not ended yet."""
        self._since: float | None = None
        """The time of the event loop at which the request in hand came, or the client stopped reading."""
        self.on_stall: Callable[[], None] | None = None
        """Called when the client does not read as fast as it is sent to, while a request is in hand."""
        self.greeting: asyncio.Task[None] | None = None

    @property
    def slow(self) -> bool:
        """Whether a request has been in hand for long, or its answer has not been read for as long."""
        return self._since is not None and _now() - self._since >= SLOW_SECONDS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, if the client may stay."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._door.tls.admits(transport):
            self._answering = asyncio.Protocol()  # which answers nothing
            self.abort()
            return
        # Whatever is not sent at once counts as not read.
        self._transport.set_write_buffer_limits(0)
        self._answering.connection_made(transport)
        self._head = self._later(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Pass on what the client sends, unless it is a head that is too large."""
        if not self._in_hand and self._head is None:
            self._head = self._later(HEAD_SECONDS)
        if not self._in_hand and self._is_too_large(data):
            self.abort()
            return
        self._answering.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the client sends no more."""
        return self._answering.eof_received()

    def pause_writing(self) -> None:
        """Note that something waits to be read by the client."""
        self._stalled = self._stalled or self._later(STALLED_SECONDS)
        self._since = _now() if self._since is None else self._since
        if self.on_stall is not None:
            self.on_stall()
        self._answering.pause_writing()

    def resume_writing(self) -> None:
        """Note that the client has read it all."""
        _cancel(self._stalled)
        self._stalled = None
        if not self._in_hand:
            self._since = None
        self._answering.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        _cancel(self._head)
        _cancel(self._stalled)
        self._door.forget(self)
        self._answering.connection_lost(exc)

    def begin(self) -> None:
        """Note that a request is in hand; how long that takes is not the client's doing."""
        self._in_hand = True
        self._since = _now()
        _cancel(self._head)
        self._head = None
        self._door.busy(self)

    def end(self, *, rest: bool) -> None:
        """Note that it is answered, with a ``rest`` of its body on the way or with the next head to come."""
        self._in_hand = False
        self._since = _now() if self._stalled else None
        self.on_stall = None
        self._head_bytes, self._head_end = -1 if rest else 0, b""
        self._door.waits(self)

    def abort(self) -> None:
        """End it at once, whatever is still to be sent."""
        if self._transport is not None:
            self._transport.abort()
        elif self.greeting is not None:
            self.greeting.cancel()

    def _is_too_large(self, data: bytes) -> bool:
        """Return whether the head that ``data`` goes on with has too many bytes; a body may have more."""
        if self._head_bytes < 0:
            return False
        end = (self._head_end + data[:3]).find(_END_OF_HEAD), data.find(_END_OF_HEAD)
        length = len(data) if max(end) < 0 else max(end[1], 0)
        self._head_bytes += length
        self._head_end = (self._head_end + data[-3:])[-3:]
        is_too_large = self._head_bytes > MOST_HEAD
        if max(end) >= 0:
            self._head_bytes = -1
        return is_too_large

    def _later(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self.abort)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class Door:
    """Takes connections from listening sockets, and keeps their number."""

    def __init__(self, answer: Callable[[], asyncio.Protocol], tls: Tls, most: int) -> None:
        """Let ``answer`` make the protocol of each connection; there are ``most`` of them at a time."""
        self._answer = answer
        self._most = most
        self.tls = tls
        self._open: ConnectionTable[Connection] = ConnectionTable()
        self._full = False
        self._refused_at = -math.inf
        self._tasks: list[asyncio.Task[None]] = []

    def open(self, listening: socket.socket) -> None:
        """Take connections from a socket that listens, until ``close``."""
        listening.setblocking(False)
        self._tasks.append(spawn(self._take(listening)))

    async def close(self) -> None:
        """Take no more connections; those that are still at their handshake end."""
        greeting = [each.greeting for each in self._open if each.greeting is not None]
        tasks = [*self._tasks, *(task for task in greeting if not task.done())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def busy(self, connection: Connection) -> None:
        """Note that a connection has a request in hand."""
        self._open.busy(connection)

    def waits(self, connection: Connection) -> None:
        """Note that a connection has none any more."""
        self._open.idle(connection)

    def forget(self, connection: Connection) -> None:
        """Note that a connection is no more."""
        self._open.discard(connection)
        self._full = self._full and len(self._open) > self._most // 2

    async def _take(self, listening: socket.socket) -> None:
        """Take connections for ever: no one of them, and no defect, ends it for those who come after."""
        while True:
            try:
                accepted, peer = await asyncio.get_running_loop().sock_accept(listening)
                self._admit(accepted, counted_address(peer))
            except OSError as error:
                await self._not_taken(error)
            except Exception as error:  # noqa: BLE001  it is logged with its traceback
                await self._failed(error)
            await asyncio.sleep(0)  # a flood of connections must not keep everything else waiting

    async def _not_taken(self, error: OSError) -> None:
        if error.errno in _BROKEN:
            await self._failed(error)
        elif error.errno in _EXHAUSTED:
            if self._is_news():
                _log.warning("connections_not_taken", connections=len(self._open), reason=error.strerror)
            self._end(self._open.longest_idle())
            await asyncio.sleep(_PAUSE)

    async def _failed(self, error: Exception) -> None:
        if self._is_news():
            _log.error("connection_failed", exc_info=error)
        await asyncio.sleep(_PAUSE)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        if len(self._open) >= self._most and not self._make_room(address):
            accepted.close()
            return
        try:
            connection = Connection(self._answer(), self)
        except Exception:
            accepted.close()
            raise
        self._open.add(connection, address)
        connection.greeting = asyncio.create_task(self._greet(connection, accepted))
        # Not in the task itself: one that is cancelled before it began would do nothing.
        connection.greeting.add_done_callback(partial(self._greeted, connection, accepted))

    def _make_room(self, address: str) -> bool:
        """End a connection for a new one from ``address``; return whether there was one."""
        if not self._full:
            _log.warning("connections_full", connections=len(self._open))
        self._full = True
        return self._end(self._open.for_newcomer(address))

    def _end(self, connection: Connection | None) -> bool:
        if connection is None:
            return False
        self._open.discard(connection)
        connection.abort()
        return True

    def _is_news(self) -> bool:
        """Return whether to say that a connection is not taken; room that was made is soon gone again."""
        now, before = asyncio.get_running_loop().time(), self._refused_at
        self._refused_at = now
        return now - before > _TOLD_AGAIN_AFTER

    async def _greet(self, connection: Connection, accepted: socket.socket) -> None:
        """Begin a connection, by a handshake where there is TLS."""
        context = self.tls.context()
        seconds = HANDSHAKE_SECONDS if context else None
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection,
            accepted,
            ssl=context,
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=seconds,
        )

    def _greeted(self, connection: Connection, accepted: socket.socket, greeting: asyncio.Task[None]) -> None:
        connection.greeting = None
        error = asyncio.CancelledError() if greeting.cancelled() else greeting.exception()
        if error is None:
            return
        self.forget(connection)
        accepted.close()
        if not isinstance(error, (OSError, asyncio.CancelledError)):  # those are the client's concern
            _log.error("task_died", exc_info=error)


@web.middleware
async def in_hand(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell a request's connection, for as long as it is answered."""
    transport = request.transport
    connection = transport.get_protocol() if transport is not None else None
    if not isinstance(connection, Connection):
        return await handler(request)
    connection.begin()
    try:
        return _ended_with(request, await handler(request))
    except web.HTTPException as error:
        _ended_with(request, error)
        raise
    finally:
        connection.end(rest=not request.content.is_eof())


def _ended_with(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    """Let a connection with the rest of a body on its way end: the next head on it would have no bound."""
    if not request.content.is_eof():
        answer.force_close()
    return answer
