"""Persistent connection to a server: one request and its response at a time."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, cast

from spec_decode_exporter.scrape.poll_errors import PollError

if TYPE_CHECKING:
    from spec_decode_exporter.scrape.http.response import ResponseParser


class _ReceiveBuffer(threading.local):
    """Receive buffer, shared by all connections of an event loop: each read is consumed immediately.

    ``asyncio.Protocol`` allocates 256 kB for every read, which costs more than the reception.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(64 * 1024))


_receive_buffer = _ReceiveBuffer()


class UnansweredError(ConnectionResetError):
    """The connection ended before the first byte of the response."""


class Connection(asyncio.BufferedProtocol):
    """Protocol of the event loop (methods of ``asyncio.BufferedProtocol``) and interface of the client."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._parser: ResponseParser | None = None

    @property
    def open(self) -> bool:
        """State of the connection: True if another request can be sent, as far as is known."""
        return not (self._lost.done() or self._transport.is_closing())

    async def send(self, request: bytes, parser: ResponseParser) -> float:
        """Send ``request`` and feed the response to ``parser``; return the seconds of both.

        After an error or a cancellation the connection is unusable: ``abort`` it.

        Raises:
            PollError: The response is unusable.
            OSError: The connection broke.
        """
        self._parser = parser
        self._finished: asyncio.Future[float | Exception] = self._loop.create_future()
        started = self._loop.time()
        try:
            self._transport.write(request)
            outcome = await self._finished
        finally:
            self._parser = None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome - started

    def abort(self) -> None:
        """Close immediately, without waiting."""
        self._transport.abort()

    async def close(self) -> None:
        """Close and wait until the socket is closed."""
        self.abort()
        await self._lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer for the next read."""
        return _receive_buffer.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on a piece of the response; unrequested data closes the connection."""
        if self._parser is None or self._finished.done():
            self.abort()
            return
        try:
            self._parser.feed(_receive_buffer.buffer[:nbytes])
        except PollError as error:
            self._finish(error)
        else:
            if self._parser.complete:
                self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete the pending request: the end of the connection can be the end of the response."""
        self._lost.set_result(None)
        if self._parser is None or self._finished.done():
            return
        if not self._parser.begun and isinstance(exc, ConnectionError | None):
            exc = UnansweredError("the server closed the connection without an answer")
        if exc is None:
            try:
                self._parser.end()
            except PollError as error:
                exc = error
        self._finish(exc)

    def _finish(self, error: Exception | None = None) -> None:
        # Not set_exception: a simultaneous cancellation would leave the exception unretrieved.
        self._finished.set_result(error or self._loop.time())
        if error is not None:
            self.abort()
