"""Ingest of single requests, and the endpoint of their findings.

Pages of other sites cannot send requests here: a browser sends a CORS preflight before JSON, and the exporter
does not allow it.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NoReturn

from aiohttp import hdrs, web
from pydantic import Field

from spec_decode_exporter.core.isolation import NO_ITEM
from spec_decode_exporter.requests.record import Batch, NotJsonError, Refusal, TooManyError
from spec_decode_exporter.views.document import View
from spec_decode_exporter.views.request_view import head, lists, refused_view
from spec_decode_exporter.web.api.problems import RequestError
from spec_decode_exporter.web.api.queries import ApiQuery, RequestsQuery
from spec_decode_exporter.web.api.responses import check_windows, encoded, pieces, respond, whole
from spec_decode_exporter.web.state import STATE

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

PATH: Final = "/api/v1/requests"
MAX_BODY_BYTES: Final = 1024 * 1024
"""Bytes of a body."""
MAX_BODIES: Final = 8
"""Concurrent bodies: each may be in memory as a whole."""
MAX_BODIES_PER_CLIENT: Final = 4
"""Of these, bodies of one client address."""
BODY_SECONDS: Final = 10.0
"""For a client to send a body."""

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
_LINES: Final = {JSON: False, NDJSON: True}

DROPPED: Final = "X-Spec-Decode-Dropped"
"""Header: requests that the sender dropped since the last accepted body."""
TOO_COSTLY: Final = "X-Spec-Decode-Too-Costly"
"""Header: of these, requests that the middleware inside vLLM did not read because of its limits."""
NUMBER: Final = "[0-9]{1,9}"
"""Regular expression of both values."""

_REJECTED: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""Status codes that lose a body, unless its sender stores it. 429 is absent: the sender retries."""


class MistakeView(View):
    """Reason for which one request was rejected."""

    index: int = Field(description="Index in the body, from 0.")
    detail: str = Field(description="The mistake; it never repeats the request.")


class TakenView(View):
    """Result of a body of requests."""

    taken: int = Field(description="Number of counted requests.")
    refused: dict[Refusal, int] = Field(
        description="Rejected requests by every reason. Senders count `dropped` and `too_costly`."
    )
    mistakes: tuple[MistakeView, ...] = Field(description="The first ten mistakes.")


async def requests(request: web.Request, query: RequestsQuery) -> web.StreamResponse:
    """Serve the findings of the selected requests."""
    state = request.app[STATE]
    check_windows(query.window, state.windows())
    findings = (await state.snapshot()).requests
    errors = state.errors
    selected = {
        name: errors.each("requests", filter(query.selects, views), lambda _: NO_ITEM, encoded)
        for name, views in lists(findings, errors).items()
    }
    return await respond(request, pieces({"time": state.clock.wall(), **head(findings)}, selected))


def count_rejected(handler: Handler) -> Handler:
    """Wrap a handler of bodies: count the bodies that it rejects."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = await handler(request)
        receiver = request.app[STATE].receiver()
        if receiver is not None and response.status in _REJECTED:
            receiver.reject_body(response.status)
        return response

    return handle


async def take(request: web.Request, _query: ApiQuery) -> web.StreamResponse:
    """Accept the requests of a body."""
    receiver = request.app[STATE].receiver()
    if receiver is None:
        raise RequestError(
            HTTPStatus.NOT_FOUND,
            "The ingest of requests is disabled; set `requests.ingest: true` in the configuration.",
        )
    lines = _is_lines(request)
    body = await _body(request)
    try:
        batch = await receiver.take(body, lines=lines, unsent=_unsent(request))
    except NotJsonError as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from None
    except TooManyError as error:
        raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from None
    if batch.above_the_rate:
        detail = "The requests exceed the rate limit, `requests.rate` of the configuration."
        raise RequestError(HTTPStatus.TOO_MANY_REQUESTS, detail, retry=1)
    return await respond(request, whole(_taken(batch)))


def _taken(batch: Batch) -> TakenView:
    return TakenView(
        taken=len(batch.requests),
        refused=refused_view(batch.refused),
        mistakes=tuple(MistakeView(index=each.index, detail=each.detail) for each in batch.mistakes),
    )


def _unsent(request: web.Request) -> dict[Refusal, int]:
    """Return the number of requests that the sender dropped, by reason. Invalid numbers count as 0."""
    unsent = _number(request, DROPPED)
    too_costly = min(unsent, _number(request, TOO_COSTLY))
    return {Refusal.DROPPED: unsent - too_costly, Refusal.TOO_COSTLY: too_costly}


def _number(request: web.Request, header: str) -> int:
    value = request.headers.get(header, "")
    return int(value) if re.fullmatch(NUMBER, value) else 0


def _is_lines(request: web.Request) -> bool:
    """Return whether the body is NDJSON."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        _unsupported("The body must not be compressed; send it without Content-Encoding.")
    lines = _LINES.get(request.content_type)
    if lines is None or hdrs.CONTENT_TYPE not in request.headers:
        _unsupported(f"The Content-Type must be {JSON} or {NDJSON}.")
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8"}:
        _unsupported("The charset must be UTF-8.")
    return lines


def _unsupported(detail: str) -> NoReturn:
    raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)


async def _body(request: web.Request) -> bytes:
    """Return the body; reject one that is too slow or too long."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > MAX_BODY_BYTES:
                    detail = (
                        f"A body is limited to {MAX_BODY_BYTES} bytes; send the requests in several bodies."
                    )
                    raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    except TimeoutError:
        detail = f"The body did not arrive within {BODY_SECONDS:.0f} seconds."
        raise RequestError(HTTPStatus.REQUEST_TIMEOUT, detail) from None
    except (ConnectionError, web.RequestPayloadError):  # an error of the client, so it is not logged
        raise RequestError(HTTPStatus.BAD_REQUEST, "The body is incomplete.") from None
    return b"".join(parts)
