"""One connection of a client: limits of time for each part of a request, and of the bytes that are held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from spec_decode_exporter.web.server.connection_limiter import ConnectionLimiter

HEAD_SECONDS: Final = 10.0
"""For the head of a request, from its first byte; for the first of a connection, from its beginning."""
STALLED_SECONDS: Final = 30.0
"""For a client to read what it was sent."""
SLOW_SECONDS: Final = 2.0
"""With a request in hand, or something to read, after which a connection may make room for another."""
MOST_HEAD: Final = 32 * 1024
"""Bytes of a request's head. aiohttp bounds its lines, and their number."""
MOST_RECEIVED: Final = 16 * 1024
"""Bytes that are read from a connection in one go. asyncio's own 256 KiB may be held while it waits."""

_END_OF_HEAD: Final = b"\r\n\r\n"


class ClientConnection(asyncio.BufferedProtocol):
    """A connection, between its transport and the protocol that answers: it limits time and bytes."""

    def __init__(self, answering: asyncio.Protocol, door: ConnectionLimiter) -> None:
        self._answering = answering
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._head: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._in_hand: web.Request | None = None
        self._ahead = 0
        """Bytes that came after the request in hand, before its answer."""
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
        """True if a request has been in hand for long, or its answer has not been read for as long."""
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

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for what the client sends. All connections share it: its content is copied."""
        del sizehint
        return self._door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on what the client sends, unless it is more than may be held."""
        data = bytes(self._door.buffer[:nbytes])
        if self._is_too_large(data):
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

    def begin(self, request: web.Request) -> None:
        """Note that a request is in hand; how long that takes is not the client's doing."""
        self._in_hand = request
        self._since = _now()
        _cancel(self._head)
        self._head = None
        self._door.busy(self)

    def end(self, *, rest: bool) -> None:
        """Note that it is answered, with a ``rest`` of its body on the way or with the next head to come."""
        self._in_hand = None
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

    @property
    def is_ahead(self) -> bool:
        """True if the client went on sending after the request in hand, instead of waiting for its answer."""
        return self._ahead > 0

    def _is_too_large(self, data: bytes) -> bool:
        """Return whether ``data`` goes on with a head, or with requests to come, of too many bytes."""
        if self._in_hand is not None:
            # A request without a body has one that is at its end.
            self._ahead += len(data) if self._in_hand.content.is_eof() else 0
            return self._ahead > MOST_HEAD
        if self._head is None:
            self._head = self._later(HEAD_SECONDS)
        return self._is_too_large_head(data)

    def _is_too_large_head(self, data: bytes) -> bool:
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


@web.middleware
async def in_hand(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell a request's connection, for as long as it is answered."""
    transport = request.transport
    connection = transport.get_protocol() if transport is not None else None
    if not isinstance(connection, ClientConnection):
        return await handler(request)
    connection.begin(request)
    try:
        return _ended_with(request, connection, await handler(request))
    except web.HTTPException as error:
        _ended_with(request, connection, error)
        raise
    finally:
        connection.end(rest=not request.content.is_eof())


def _ended_with(
    request: web.Request, connection: ClientConnection, answer: web.StreamResponse
) -> web.StreamResponse:
    """End a connection with the rest of a body on its way, or requests ahead: they would have no bound."""
    if connection.is_ahead or not request.content.is_eof():
        answer.force_close()
    return answer
