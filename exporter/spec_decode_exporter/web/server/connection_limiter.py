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
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from spec_decode_exporter.core.background_tasks import spawn
from spec_decode_exporter.web.server.client_address import counted_address
from spec_decode_exporter.web.server.client_connection import MOST_RECEIVED, ClientConnection
from spec_decode_exporter.web.server.connection_table import ConnectionTable
from spec_decode_exporter.web.server.fair_queue import FairQueue

if TYPE_CHECKING:
    import socket

MOST_CONNECTIONS: Final = 128
"""With TLS, each takes a third of a megabyte while it lasts."""
HANDSHAKE_SECONDS: Final = 10.0
"""For a TLS handshake, the wait for its first byte and for its turn included."""
BEGUN_HANDSHAKE_SECONDS: Final = 2.0
"""For a TLS handshake from its turn on."""
MOST_HANDSHAKES: Final = 16
"""TLS handshakes at a time: each signature takes milliseconds of the event loop."""
MOST_HANDSHAKES_PER_CLIENT: Final = 4
"""Of these, handshakes of one client address."""
IDLE_SECONDS: Final = 180.0
"""Between two requests: longer than the usual intervals of Prometheus, so that it need not connect anew."""

_PAUSE: Final = 1.0
"""Seconds to wait where the process has no descriptor left for another connection, or one met a defect."""
_TOLD_AGAIN_AFTER: Final = 60.0
"""Seconds without an event after which the log repeats it."""
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


class ConnectionLimiter:
    """Takes connections from listening sockets, and keeps their number."""

    def __init__(self, answer: Callable[[], asyncio.Protocol], tls: Tls, most: int) -> None:
        """Let ``answer`` make the protocol of each connection; there are ``most`` of them at a time."""
        self._answer = answer
        self._most = most
        self.tls = tls
        self.buffer = memoryview(bytearray(MOST_RECEIVED))
        """Buffer of what is read from a connection, until it is passed on."""
        self._open: ConnectionTable[ClientConnection] = ConnectionTable()
        self._handshakes: FairQueue[str] = FairQueue(MOST_HANDSHAKES, MOST_HANDSHAKES_PER_CLIENT, most)
        self._seen_at: dict[str, float] = {}
        """When each event of the log was seen last."""
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

    def busy(self, connection: ClientConnection) -> None:
        """Note that a connection has a request in hand."""
        self._open.busy(connection)

    def waits(self, connection: ClientConnection) -> None:
        """Note that a connection has none any more."""
        self._open.idle(connection)

    def forget(self, connection: ClientConnection) -> None:
        """Note that a connection is no more."""
        self._open.discard(connection)

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
            if self._is_news("connections_not_taken"):
                _log.warning("connections_not_taken", connections=len(self._open), reason=error.strerror)
            self._end(self._open.longest_idle())
            await asyncio.sleep(_PAUSE)

    async def _failed(self, error: Exception) -> None:
        if self._is_news("connection_failed"):
            _log.error("connection_failed", exc_info=error)
        await asyncio.sleep(_PAUSE)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        if len(self._open) >= self._most and not self._make_room(address):
            accepted.close()
            return
        try:
            connection = ClientConnection(self._answer(), self)
        except Exception:
            accepted.close()
            raise
        self._open.add(connection, address)
        connection.greeting = asyncio.create_task(self._greet(connection, accepted, address))
        # Not in the task itself: one that is cancelled before it began would do nothing.
        connection.greeting.add_done_callback(partial(self._greeted, connection, accepted))

    def _make_room(self, address: str) -> bool:
        """End a connection for a new one from ``address``; return whether there was one."""
        if self._is_news("connections_full"):
            _log.warning("connections_full", connections=len(self._open))
        return self._end(self._open.for_newcomer(address))

    def _end(self, connection: ClientConnection | None) -> bool:
        if connection is None:
            return False
        self._open.discard(connection)
        connection.abort()
        return True

    def _is_news(self, event: str) -> bool:
        """Return whether to log an event: it is over if it was not seen for a minute."""
        now = asyncio.get_running_loop().time()
        before, self._seen_at[event] = self._seen_at.get(event, -math.inf), now
        return now - before > _TOLD_AGAIN_AFTER

    async def _greet(self, connection: ClientConnection, accepted: socket.socket, address: str) -> None:
        """Begin a connection, by a handshake where there is TLS."""
        context = self.tls.context()
        if context is None:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
            return
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await _readable(accepted)  # a silent client must not keep others from their turn
            await self._handshakes.take(address)
            try:
                await self._shake_hands(connection, accepted, context)
            finally:
                self._handshakes.give_back(address)

    async def _shake_hands(
        self, connection: ClientConnection, accepted: socket.socket, context: ssl.SSLContext
    ) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection,
            accepted,
            ssl=context,
            ssl_handshake_timeout=BEGUN_HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=HANDSHAKE_SECONDS,
        )

    def _greeted(
        self, connection: ClientConnection, accepted: socket.socket, greeting: asyncio.Task[None]
    ) -> None:
        connection.greeting = None
        error = asyncio.CancelledError() if greeting.cancelled() else greeting.exception()
        if error is None:
            return
        self.forget(connection)
        accepted.close()
        if not isinstance(error, (OSError, asyncio.CancelledError)):  # those are the client's concern
            _log.error("task_died", exc_info=error)


async def _readable(accepted: socket.socket) -> None:
    """Return when a client has sent something, or has hung up."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(accepted, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(accepted)
