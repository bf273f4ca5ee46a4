"""Persistent connection to a server: one request and its response at a time."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.http.response import ResponseParser
from spec_decode_exporter.scrape.http.timeout_sweep import TimeoutSweep


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

    def __init__(self, timeouts: TimeoutSweep, *, reads_problems: bool = False) -> None:
        """End requests that take too long by ``timeouts``; see ``ResponseParser`` for problems."""
        self._loop = asyncio.get_running_loop()
        self._timeouts = timeouts
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._finished: asyncio.Future[float | Exception] | None = None
        """Moment of the last byte of the awaited response, or why there is none; None if none is awaited."""
        self._buffer = _receive_buffer.buffer
        self.parser = ResponseParser(reads_problems=reads_problems)
        """The response to the last request."""

    @property
    def open(self) -> bool:
        """State of the connection: True if another request can be sent, as far as is known."""
        return not (self._lost.done() or self._transport.is_closing())

    async def send(self, request: bytes, *, max_body: int, deadline: float) -> float:
        """Send ``request`` and read the response into ``parser``; return the seconds of both.

        After an error or a cancellation the connection is unusable: ``abort`` it.

        Args:
            request: Head of the request; it has no body.
            max_body: Maximum bytes of the body of the response.
            deadline: Moment at which the request has taken too long, by the time of the event loop.

        Raises:
            PollError: The response is unusable.
            OSError: The connection broke, or it is a TimeoutError.
        """
        self.parser.begin(max_body)
        self._finished = self._loop.create_future()
        self._timeouts.add(self, deadline)
        started = self._loop.time()
        try:
            self._transport.write(request)
            outcome = await self._finished
        finally:
            self._finished = None
            self._timeouts.remove(self)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome - started

    def expire(self) -> None:
        """End the request: its deadline has passed."""
        self._finish(TimeoutError())

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
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on a piece of the response; unrequested data closes the connection."""
        if not self._is_awaited():
            self.abort()
            return
        try:
            self.parser.feed(self._buffer[:nbytes])
        except PollError as error:
            self._finish(error)
        else:
            if self.parser.complete:
                self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete the pending request: the end of the connection can be the end of the response."""
        self._lost.set_result(None)
        if self._is_awaited():
            self._finish(self._error_of_end(exc))
        self.parser.close()

    def _error_of_end(self, exc: Exception | None) -> Exception | None:
        """Return why the response is unusable after the end of the connection; None if it is complete."""
        if not self.parser.begun and isinstance(exc, ConnectionError | None):
            return UnansweredError("the server closed the connection without an answer")
        if exc is None:
            try:
                self.parser.end()
            except PollError as error:
                return error
        return exc

    def _is_awaited(self) -> bool:
        return self._finished is not None and not self._finished.done()

    def _finish(self, error: Exception | None = None) -> None:
        if self._finished is None or self._finished.done():
            return
        # Not set_exception: a simultaneous cancellation would leave the exception unretrieved.
        self._finished.set_result(error or self._loop.time())
        if error is not None:
            self.abort()
