"""Events as they happen, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import hdrs, web

from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.monitor.event_log import EventLog, Since, UnknownEventError
from spec_decode_exporter.views.event_view import event_view
from spec_decode_exporter.views.models import EventView
from spec_decode_exporter.web.api.problems import RequestError, wrong_parameter
from spec_decode_exporter.web.server.client_address import client_address
from spec_decode_exporter.web.state import STATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spec_decode_exporter.web.api.queries import EventFilter

MOST_READERS: Final = 32
"""Streams at a time: each holds a connection for as long as its reader likes."""
MOST_PER_CLIENT: Final = 8
"""Of these, streams of one client address."""
KEEP_ALIVE_SECONDS: Final = 15.0
"""Silence after which a comment is sent, so that proxies do not take the stream for dead."""

LAST_EVENT_ID: Final = "Last-Event-ID"
CONTENT_TYPE: Final = "text/event-stream"

_HEADERS: Final = {"Content-Type": CONTENT_TYPE, "X-Accel-Buffering": "no"}
_RETRY: Final = "retry: 3000\n"
_KEEP_ALIVE: Final = b": nothing happened\n\n"


class Readers:
    """Clients that read the stream. A slow reader costs nothing but its connection: see ``web.connection``.

    Nothing waits in a queue for it. When it is ready for more it gets what the ring holds, and is told if
    that is not all.
    """

    def __init__(
        self,
        most: int = MOST_READERS,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        per_client: int = MOST_PER_CLIENT,
    ) -> None:
        self._free = most
        self._per_client = per_client
        self._reading: Counter[str] = Counter()
        self._keep_alive = keep_alive

    async def stream(self, request: web.Request, query: EventFilter) -> web.StreamResponse:
        """Serve what came after ``Last-Event-ID`` or ``since``, else what is still to come, until the end."""
        state = request.app[STATE]
        log = state.api.events
        seen = request.headers.get(LAST_EVENT_ID) or query.since or log.last
        try:
            log.since(seen)
        except UnknownEventError as error:
            raise wrong_parameter(LAST_EVENT_ID, "is not the id of an event") from error
        if request.method == hdrs.METH_HEAD:
            return web.Response(headers=_HEADERS)
        with self._seat(client_address(request.transport)), suppress(ConnectionError):
            response = web.StreamResponse(headers=_HEADERS)
            await response.prepare(request)
            await response.write(f"{_RETRY}{_place(seen)}".encode())
            await self._follow(response, _Reader(log, query, state.errors), seen)
        return response

    @contextmanager
    def _seat(self, client: str) -> Iterator[None]:
        if not self._free or self._reading[client] >= self._per_client:
            detail = "As many streams of events are read as there may be; ask /api/v1/events instead."
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry=30)
        self._free -= 1
        self._reading[client] += 1
        try:
            yield
        finally:
            self._free += 1
            self._reading[client] -= 1
            self._reading = +self._reading  # without the clients that read no more

    async def _follow(self, response: web.StreamResponse, reader: _Reader, seen: str) -> None:
        log = reader.log
        while not log.closed:
            since = log.since(seen)
            if since.last != seen or since.gap:
                await response.write(reader.written(since, seen))
            seen = since.last
            try:
                await asyncio.wait_for(log.beyond(seen), self._keep_alive)
            except TimeoutError:
                await response.write(_KEEP_ALIVE)


class _Reader(NamedTuple):
    """Events on their way to one client."""

    log: EventLog
    query: EventFilter
    errors: InternalErrors

    def written(self, since: Since, seen: str) -> bytes:
        """Write events, after a ``gap`` if some are missing; the reader ends up with the last id."""
        chosen = list(filter(self.query.selects, map(event_view, since.events)))
        gap = [f"event: gap\ndata: {json.dumps({'since': seen})}\n\n"] if since.gap else []
        told = self.errors.each("events", chosen, lambda event: {"target": event.target}, _message)
        is_last = bool(chosen) and chosen[-1].id == since.last
        return "".join([*gap, *told, "" if is_last else _place(since.last)]).encode()


def _message(event: EventView) -> str:
    return f"id: {event.id}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"


def _place(identifier: str) -> str:
    """Write where a reader is, who connects again with it: browsers keep it without telling the page."""
    return f"id: {identifier}\n\n"


READERS: Final = web.AppKey("readers", Readers)


async def events(request: web.Request, query: EventFilter) -> web.StreamResponse:
    """Serve the stream, if there is a place for one more reader."""
    return await request.app[READERS].stream(request, query)
