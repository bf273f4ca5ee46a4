"""One connection to a server, kept alive between polls: a request out, its answer in, one at a time."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, cast

from spec_decode_exporter.scrape.poll_errors import PollError

if TYPE_CHECKING:
    from spec_decode_exporter.scrape.http.response import ResponseParser


class _Memory(threading.local):
    """Where data is received: one place for all connections of an event loop, since it is emptied at once.

    Plain ``asyncio.Protocol`` has 256 kB allocated for every piece, which costs more than the reception.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(64 * 1024))


_memory = _Memory()


class UnansweredError(ConnectionResetError):
    """The connection ended before any byte of the answer came."""


class Connection(asyncio.BufferedProtocol):
    """The event loop calls what is named as in ``asyncio.BufferedProtocol``, the client the rest."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._answer: ResponseParser | None = None

    @property
    def open(self) -> bool:
        """Whether another request can be sent, as far as is known yet."""
        return not (self._lost.done() or self._transport.is_closing())

    async def ask(self, request: bytes, answer: ResponseParser) -> float:
        """Send ``request`` and feed ``answer`` with what comes back; return the seconds that both took.

        Raises ``PollError`` for an answer of no use and ``OSError`` for a connection that broke. After
        these, and after a cancellation, the connection is of no use either: ``abort`` it.
        """
        self._answer = answer
        self._finished: asyncio.Future[float | Exception] = self._loop.create_future()
        started = self._loop.time()
        try:
            self._transport.write(request)
            outcome = await self._finished
        finally:
            self._answer = None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome - started

    def abort(self) -> None:
        """Close at once, without waiting for anything."""
        self._transport.abort()

    async def close(self) -> None:
        """Close, and return when the socket is closed."""
        self.abort()
        await self._lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take hold of the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Say where to put what arrives."""
        return _memory.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on a piece of the answer; one that comes unasked ends the connection."""
        if self._answer is None or self._finished.done():
            self.abort()
            return
        try:
            self._answer.feed(_memory.buffer[:nbytes])
        except PollError as error:
            self._finish(error)
        else:
            if self._answer.complete:
                self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle what is being waited for: the end of the connection may well be the end of the answer."""
        self._lost.set_result(None)
        if self._answer is None or self._finished.done():
            return
        if not self._answer.begun and isinstance(exc, ConnectionError | None):
            exc = UnansweredError("the server closed the connection without an answer")
        if exc is None:
            try:
                self._answer.end()
            except PollError as error:
                exc = error
        self._finish(exc)

    def _finish(self, error: Exception | None = None) -> None:
        # Not set_exception: nobody would look at it if a cancellation came at the same moment.
        self._finished.set_result(error or self._loop.time())
        if error is not None:
            self.abort()
