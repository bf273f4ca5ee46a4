"""Event stream: server-sent events as they occur."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import hdrs, web

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.monitor.event_log import EventLog, Since, UnknownEventError
from spec_decode_exporter.views.fleet_view import EventView, event_view
from spec_decode_exporter.web.api.problems import RequestError, wrong_parameter
from spec_decode_exporter.web.server.client_address import client_address
from spec_decode_exporter.web.server.fair_queue import QueueFullError
from spec_decode_exporter.web.server.fair_semaphore import FairSemaphore
from spec_decode_exporter.web.state import STATE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spec_decode_exporter.web.api.queries import EventFilter

MAX_READERS: Final = 32
"""Concurrent streams. Each holds a connection until its reader closes it."""
MAX_READERS_PER_CLIENT: Final = 8
"""Of these, streams of one client address."""
KEEP_ALIVE_SECONDS: Final = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection."""

LAST_EVENT_ID: Final = "Last-Event-ID"
CONTENT_TYPE: Final = "text/event-stream"

_HEADERS: Final = {"Content-Type": CONTENT_TYPE, "X-Accel-Buffering": "no"}
_RETRY: Final = "retry: 3000\n"
_KEEP_ALIVE: Final = b": no events\n\n"


class Readers:
    """Clients that read the stream. A slow reader costs only its connection: see ``ClientConnection``.

    It has no queue. When it can receive again, it gets the stored events, after a ``gap`` if some were lost.
    """

    def __init__(
        self,
        max_readers: int = MAX_READERS,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        per_client: int = MAX_READERS_PER_CLIENT,
    ) -> None:
        self._semaphore = FairSemaphore(max_readers, per_client, max_waiting=0)
        self._keep_alive = keep_alive

    async def stream(self, request: web.Request, query: EventFilter) -> web.StreamResponse:
        """Send the events after ``Last-Event-ID`` or ``since``, else new ones, until either side closes."""
        state = request.app[STATE]
        log = state.events
        last = request.headers.get(LAST_EVENT_ID) or query.since or log.last
        try:
            log.since(last)
        except UnknownEventError as error:
            raise wrong_parameter(LAST_EVENT_ID, "is not the id of an event") from error
        if request.method == hdrs.METH_HEAD:
            return web.Response(headers=_HEADERS)
        response = web.StreamResponse(headers=_HEADERS)
        async with self._place(client_address(request.transport)):
            with suppress(ConnectionError):
                await response.prepare(request)
                await response.write(f"{_RETRY}{_position(last)}".encode())
                await self._follow(response, _Reader(log, query, state.errors), last)
        return response

    @asynccontextmanager
    async def _place(self, client: str) -> AsyncIterator[None]:
        try:
            await self._semaphore.acquire(client)
        except QueueFullError:
            detail = "The limit of event streams is reached; use /api/v1/events instead."
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry=30) from None
        try:
            yield
        finally:
            self._semaphore.release(client)

    async def _follow(self, response: web.StreamResponse, reader: _Reader, last: str) -> None:
        log = reader.log
        while not log.closed:
            since = log.since(last)
            if since.last != last or since.gap:
                await response.write(reader.written(since, last))
            last = since.last
            try:
                await asyncio.wait_for(log.beyond(last), self._keep_alive)
            except TimeoutError:
                await response.write(_KEEP_ALIVE)


class _Reader(NamedTuple):
    """Formatter of the events of one client."""

    log: EventLog
    query: EventFilter
    errors: Isolation

    def written(self, since: Since, last: str) -> bytes:
        """Return the selected events, after a ``gap`` if some are lost, and always the last id."""
        chosen = list(filter(self.query.selects, map(event_view, since.events)))
        gap = [f"event: gap\ndata: {json.dumps({'since': last})}\n\n"] if since.gap else []
        messages = self.errors.each("events", chosen, lambda event: {"target": event.target}, _message)
        is_last = bool(chosen) and chosen[-1].id == since.last
        return "".join([*gap, *messages, "" if is_last else _position(since.last)]).encode()


def _message(event: EventView) -> str:
    return f"id: {event.id}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"


def _position(identifier: str) -> str:
    """Return an id without an event. A browser stores it, and reconnects with it as ``Last-Event-ID``."""
    return f"id: {identifier}\n\n"


READERS: Final = web.AppKey("readers", Readers)


async def events(request: web.Request, query: EventFilter) -> web.StreamResponse:
    """Serve the stream, unless the limit of readers is reached."""
    return await request.app[READERS].stream(request, query)
