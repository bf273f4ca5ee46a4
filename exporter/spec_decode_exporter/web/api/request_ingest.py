"""Single requests: taken from those who have them, and what they say together.

No browser can be made to send any from another site: it asks first whether it may send JSON there, and nobody
answers that it may.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NoReturn

from aiohttp import hdrs, web

from spec_decode_exporter.core.internal_errors import NO_ITEM
from spec_decode_exporter.requests.request_batch import Batch, NotJsonError, TooManyError
from spec_decode_exporter.requests.request_record import Refusal
from spec_decode_exporter.views.request_models import MistakeView, TakenView
from spec_decode_exporter.views.request_view import head, lists, refused_view
from spec_decode_exporter.web.api.problems import RequestError
from spec_decode_exporter.web.api.queries import ApiQuery, RequestsQuery
from spec_decode_exporter.web.api.responses import check_windows, encoded, pieces, respond, whole
from spec_decode_exporter.web.state import STATE

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

PATH: Final = "/api/v1/requests"
MOST_BODY: Final = 1024 * 1024
"""Bytes of a body."""
MOST_BODIES: Final = 8
"""Bodies that are taken at a time: each may be held in memory as a whole."""
MOST_BODIES_PER_CLIENT: Final = 4
"""Of these, bodies of one client address."""
_BODY_SECONDS: Final = 10.0
"""For a body to arrive."""

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
_LINES: Final = {JSON: False, NDJSON: True}

DROPPED: Final = "X-Spec-Decode-Dropped"
"""Header: requests that the sender did not send since the last body that was taken."""
TOO_COSTLY: Final = "X-Spec-Decode-Too-Costly"
"""Header: those of them that the middleware inside vLLM did not read, because of its limits."""
NUMBER: Final = "[0-9]{1,9}"
"""The form of both values."""

_TURNED_AWAY: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""By these answers a body is lost, unless its sender keeps it. One above the rate is asked to come again."""


async def requests(request: web.Request, query: RequestsQuery) -> web.StreamResponse:
    """Serve what the requests say that are asked for."""
    state = request.app[STATE]
    check_windows(query.window, state.api.windows())
    await state.prepare()
    found = state.api.requests()
    errors = state.errors
    chosen = {
        name: errors.each("requests", filter(query.selects, views), lambda _: NO_ITEM, encoded)
        for name, views in lists(found, errors).items()
    }
    return await respond(request, pieces({"time": state.api.now(), **head(found)}, chosen))


def counted(handler: Handler) -> Handler:
    """Return the handler of bodies that counts those which are turned away, whatever for."""

    async def handle(request: web.Request) -> web.StreamResponse:
        answer = await handler(request)
        taker = request.app[STATE].api.receiver()
        if taker is not None and answer.status in _TURNED_AWAY:
            taker.reject_body(answer.status)
        return answer

    return handle


async def take(request: web.Request, _query: ApiQuery) -> web.StreamResponse:
    """Take the requests of a body."""
    taker = request.app[STATE].api.receiver()
    if taker is None:
        raise RequestError(
            HTTPStatus.NOT_FOUND,
            "No requests are taken here. Set `requests.ingest: true` in the exporter's configuration.",
        )
    lines = _is_lines(request)
    body = await _body(request)
    try:
        batch = await taker.take(body, lines=lines, unsent=_unsent(request))
    except NotJsonError as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from None
    except TooManyError as error:
        raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from None
    if batch.above_the_rate:
        detail = "More requests come in a second than are taken; `requests.rate` of the configuration."
        raise RequestError(HTTPStatus.TOO_MANY_REQUESTS, detail, retry=1)
    return await respond(request, whole(_taken(batch)))


def _taken(batch: Batch) -> TakenView:
    return TakenView(
        taken=len(batch.requests),
        refused=refused_view(batch.refused),
        mistakes=tuple(MistakeView(index=each.index, detail=each.detail) for each in batch.mistakes),
    )


def _unsent(request: web.Request) -> dict[Refusal, int]:
    """Return how many requests the sender did not send, by reason. Invalid numbers count as 0."""
    unsent = _number(request, DROPPED)
    too_costly = min(unsent, _number(request, TOO_COSTLY))
    return {Refusal.DROPPED: unsent - too_costly, Refusal.TOO_COSTLY: too_costly}


def _number(request: web.Request, header: str) -> int:
    value = request.headers.get(header, "")
    return int(value) if re.fullmatch(NUMBER, value) else 0


def _is_lines(request: web.Request) -> bool:
    """Return whether the body is NDJSON."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        _unsupported("A body must not be packed: send it without Content-Encoding.")
    lines = _LINES.get(request.content_type)
    if lines is None or hdrs.CONTENT_TYPE not in request.headers:
        _unsupported(f"The Content-Type must be {JSON} or {NDJSON}.")
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8"}:
        _unsupported("The charset must be UTF-8.")
    return lines


def _unsupported(detail: str) -> NoReturn:
    raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)


async def _body(request: web.Request) -> bytes:
    """Return the body; who sends it too slowly, or too much of it, is refused."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > MOST_BODY:
                    detail = f"A body has {MOST_BODY} bytes at most; send the requests in parts."
                    raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    except TimeoutError:
        detail = f"The body did not arrive within {_BODY_SECONDS:.0f} seconds."
        raise RequestError(HTTPStatus.REQUEST_TIMEOUT, detail) from None
    except (
        ConnectionError,
        web.RequestPayloadError,
    ):  # it is no internal error, and clients may do it for ever
        raise RequestError(HTTPStatus.BAD_REQUEST, "The body ended before its end.") from None
    return b"".join(parts)
