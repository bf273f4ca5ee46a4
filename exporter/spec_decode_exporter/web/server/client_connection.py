"""Client connection with a time limit for each part of a request, and limits of the bytes in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, cast

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from spec_decode_exporter.web.server.handshake import Tls

HEAD_SECONDS: Final = 10.0
"""For the head of a request from its first byte, or of the first request from the connection's begin."""
STALLED_SECONDS: Final = 30.0
"""For a client to read what was sent."""
SLOW_SECONDS: Final = 2.0
"""With an active request or unread data, after which a new connection may replace this one."""
MAX_HEAD_BYTES: Final = 32 * 1024
"""Of a request's head. aiohttp limits its lines, and their number."""
RECEIVE_BUFFER_BYTES: Final = 16 * 1024
"""Bytes per read from a connection. asyncio's default of 256 KiB would stay in memory while it waits."""

_END_OF_HEAD: Final = b"\r\n\r\n"


class ConnectionRegistry(Protocol):
    """The limiter as its connections use it."""

    tls: Tls
    buffer: memoryview

    def mark_busy(self, connection: ClientConnection) -> None:
        """Mark a connection as one with an active request."""

    def mark_idle(self, connection: ClientConnection) -> None:
        """Mark a connection as one without an active request."""

    def discard(self, connection: ClientConnection) -> None:
        """Remove a closed connection."""


class ClientConnection(asyncio.BufferedProtocol):
    """Protocol between a connection's transport and its HTTP protocol: it limits time and bytes."""

    def __init__(self, http: asyncio.Protocol, limiter: ConnectionRegistry) -> None:
        self._http = http
        self._limiter = limiter
        self._transport: asyncio.Transport | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._request: web.Request | None = None
        self._ahead = 0
        """Bytes received after the active request, before its response."""
        self._head_bytes = 0
        """Of the incomplete head; -1 if the next bytes are a body."""
        self._head_end = b""
        """The last bytes of the incomplete head."""
        self._busy_since: float | None = None
        """Time of the event loop at which the active request began, or the client stopped reading."""
        self.on_stall: Callable[[], None] | None = None
        """Called when the client reads slower than the response is sent."""
        self.handshake: asyncio.Task[None] | None = None

    @property
    def slow(self) -> bool:
        """True if a request has been active for long, or its response has been unread for as long."""
        return self._busy_since is not None and _now() - self._busy_since >= SLOW_SECONDS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the HTTP protocol, unless the TLS settings reject the client."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._limiter.tls.admits(transport):
            self._http = asyncio.Protocol()  # it ignores all data
            self.abort()
            return
        # Any unsent byte counts as unread.
        self._transport.set_write_buffer_limits(0)
        self._http.connection_made(transport)
        self._head_timer = self._later(HEAD_SECONDS)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the receive buffer. All connections share it, so its content is copied."""
        del sizehint
        return self._limiter.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass received bytes to the HTTP protocol; close the connection if they exceed the limits."""
        data = bytes(self._limiter.buffer[:nbytes])
        if self._is_too_large(data):
            self.abort()
            return
        self._http.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass the end of the client's data to the HTTP protocol."""
        return self._http.eof_received()

    def pause_writing(self) -> None:
        """Start the timer of unread data."""
        self._stall_timer = self._stall_timer or self._later(STALLED_SECONDS)
        self._busy_since = _now() if self._busy_since is None else self._busy_since
        if self.on_stall is not None:
            self.on_stall()
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Stop the timer: the client has read all data."""
        _cancel(self._stall_timer)
        self._stall_timer = None
        if not self._request:
            self._busy_since = None
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers and free the connection's place."""
        _cancel(self._head_timer)
        _cancel(self._stall_timer)
        self._limiter.discard(self)
        self._http.connection_lost(exc)

    def begin_request(self, request: web.Request) -> None:
        """Mark a request as active. Its time is the exporter's, so the timer of the head stops."""
        self._request = request
        self._busy_since = _now()
        _cancel(self._head_timer)
        self._head_timer = None
        self._limiter.mark_busy(self)

    def end_request(self, *, has_unread_body: bool) -> None:
        """Mark the request as answered. The next bytes are the rest of its body, or another head."""
        self._request = None
        self._busy_since = _now() if self._stall_timer else None
        self.on_stall = None
        self._head_bytes, self._head_end = -1 if has_unread_body else 0, b""
        self._limiter.mark_idle(self)

    def abort(self) -> None:
        """Close the connection immediately, with its unsent data."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    @property
    def is_ahead(self) -> bool:
        """True if the client sent more after the active request, before its response (pipelining)."""
        return self._ahead > 0

    def _is_too_large(self, data: bytes) -> bool:
        """Return whether ``data`` exceeds the limit of a head, or of pipelined requests."""
        if self._request is not None:
            # The content of a request without a body is at its end.
            self._ahead += len(data) if self._request.content.is_eof() else 0
            return self._ahead > MAX_HEAD_BYTES
        if self._head_timer is None:
            self._head_timer = self._later(HEAD_SECONDS)
        return self._is_too_large_head(data)

    def _is_too_large_head(self, data: bytes) -> bool:
        """Return whether the head that ``data`` continues is too large. Bodies are limited elsewhere."""
        if self._head_bytes < 0:
            return False
        end = (self._head_end + data[:3]).find(_END_OF_HEAD), data.find(_END_OF_HEAD)
        length = len(data) if max(end) < 0 else max(end[1], 0)
        self._head_bytes += length
        self._head_end = (self._head_end + data[-3:])[-3:]
        is_too_large = self._head_bytes > MAX_HEAD_BYTES
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
async def track_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Mark the request of a connection as active until its handler returns."""
    transport = request.transport
    connection = transport.get_protocol() if transport is not None else None
    if not isinstance(connection, ClientConnection):
        return await handler(request)
    connection.begin_request(request)
    try:
        return _close_after(request, connection, await handler(request))
    except web.HTTPException as error:
        _close_after(request, connection, error)
        raise
    finally:
        connection.end_request(has_unread_body=not request.content.is_eof())


def _close_after(
    request: web.Request, connection: ClientConnection, response: web.StreamResponse
) -> web.StreamResponse:
    """Close a connection with unread body or pipelined requests after the response: they have no limit."""
    if connection.is_ahead or not request.content.is_eof():
        response.force_close()
    return response
