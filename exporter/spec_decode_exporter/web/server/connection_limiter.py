"""Accept connections, and limit their number.

aiohttp has no limit of the number of connections, nor of the time for a handshake, for the head of a request
and for a client to read its response. With these limits, clients cannot exhaust the descriptors and memory
that the polls need. At the maximum, a new connection replaces an idle or slow one.
"""

from __future__ import annotations

import asyncio
import errno
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from spec_decode_exporter.core.tasks import spawn, yield_to_event_loop
from spec_decode_exporter.web.server.client_address import counted_address
from spec_decode_exporter.web.server.client_connection import RECEIVE_BUFFER_BYTES, ClientConnection
from spec_decode_exporter.web.server.connection_table import ConnectionTable
from spec_decode_exporter.web.server.handshake import Handshakes, Tls

if TYPE_CHECKING:
    import socket

MAX_CONNECTIONS: Final = 128
"""With TLS, each connection takes a third of a megabyte."""

_PAUSE: Final = 1.0
"""Seconds to wait after an internal error, or if the process has no free descriptor."""
_LOG_AGAIN_AFTER: Final = 60.0
"""Seconds without an event after which the log repeats it."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BROKEN: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})
"""Errors of the listening socket. All others are errors of one connection."""

_log = structlog.get_logger()


class ConnectionLimiter:
    """Accepts connections from listening sockets, up to a limit."""

    def __init__(self, make_http: Callable[[], asyncio.Protocol], tls: Tls, max_connections: int) -> None:
        """Accept ``max_connections``; ``make_http`` returns the HTTP protocol of each connection."""
        self._make_http = make_http
        self._max_connections = max_connections
        self.tls = tls
        self.buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        """Receive buffer of all connections."""
        self._open: ConnectionTable[ClientConnection] = ConnectionTable()
        self._handshakes = Handshakes(tls, max_connections)
        self._logged_at: dict[str, float] = {}
        """Time at which each event of the log last occurred."""
        self._tasks: list[asyncio.Task[None]] = []

    def open(self, listening: socket.socket) -> None:
        """Accept connections from a listening socket, until ``close``."""
        listening.setblocking(False)
        self._tasks.append(spawn(self._accept_forever(listening)))

    async def close(self) -> None:
        """Stop accepting connections, and cancel handshakes."""
        handshakes = [each.handshake for each in self._open if each.handshake is not None]
        tasks = [*self._tasks, *(task for task in handshakes if not task.done())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def mark_busy(self, connection: ClientConnection) -> None:
        """Mark a connection as one with an active request."""
        self._open.mark_busy(connection)

    def mark_idle(self, connection: ClientConnection) -> None:
        """Mark a connection as one without an active request."""
        self._open.mark_idle(connection)

    def discard(self, connection: ClientConnection) -> None:
        """Remove a closed connection."""
        self._open.discard(connection)

    async def _accept_forever(self, listening: socket.socket) -> None:
        """Accept connections. No error of one connection, and no internal error, ends this."""
        while True:
            try:
                accepted, peer = await asyncio.get_running_loop().sock_accept(listening)
                self._admit(accepted, counted_address(peer))
            except OSError as error:
                await self._handle_accept_error(error)
            except Exception as error:  # noqa: BLE001  it is logged with its traceback
                await self._handle_internal_error(error)
            await yield_to_event_loop()  # a flood of connections must not block other tasks

    async def _handle_accept_error(self, error: OSError) -> None:
        if error.errno in _BROKEN:
            await self._handle_internal_error(error)
        elif error.errno in _EXHAUSTED:
            if self._is_new("connections_not_taken"):
                _log.warning("connections_not_taken", connections=len(self._open), reason=error.strerror)
            self._close(self._open.longest_idle())
            await asyncio.sleep(_PAUSE)

    async def _handle_internal_error(self, error: Exception) -> None:
        if self._is_new("connection_failed"):
            _log.error("connection_failed", exc_info=error)
        await asyncio.sleep(_PAUSE)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        if len(self._open) >= self._max_connections and not self._make_room(address):
            accepted.close()
            return
        try:
            connection = ClientConnection(self._make_http(), self)
        except Exception:
            accepted.close()
            raise
        self._open.add(connection, address)
        connection.handshake = asyncio.create_task(self._handshakes.start(connection, accepted, address))
        # A callback, because a task that is cancelled before its first step runs no code of its own.
        connection.handshake.add_done_callback(partial(self._finish_handshake, connection, accepted))

    def _make_room(self, address: str) -> bool:
        """Close a connection for a new one from ``address``; return whether one was closed."""
        if self._is_new("connections_full"):
            _log.warning("connections_full", connections=len(self._open))
        return self._close(self._open.replaceable(address))

    def _close(self, connection: ClientConnection | None) -> bool:
        if connection is None:
            return False
        self._open.discard(connection)
        connection.abort()
        return True

    def _is_new(self, event: str) -> bool:
        """Return whether to log an event: it last occurred more than a minute ago."""
        now = asyncio.get_running_loop().time()
        before, self._logged_at[event] = self._logged_at.get(event, -math.inf), now
        return now - before > _LOG_AGAIN_AFTER

    def _finish_handshake(
        self, connection: ClientConnection, accepted: socket.socket, handshake: asyncio.Task[None]
    ) -> None:
        connection.handshake = None
        error = asyncio.CancelledError() if handshake.cancelled() else handshake.exception()
        if error is None:
            return
        self.discard(connection)
        accepted.close()
        if not isinstance(error, (OSError, asyncio.CancelledError)):  # these are errors of the client
            _log.error("task_died", exc_info=error)
