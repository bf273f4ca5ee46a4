"""Endpoints of the API: parameters by rows of a table, JSON responses, RFC 9457 problems for all errors."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiohttp import hdrs, web

from spec_decode_exporter.views.document import View, at
from spec_decode_exporter.web.limits import packed_response

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler
    from msgspec import Struct
    from multidict import MultiMapping

ROOT: Final = "/api"
INGEST_PATH: Final = "/api/v1/requests"
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
MAX_PARAMETERS: Final = 128  # with repeated ones: each value is compared with every engine
_MAX_NAME_LENGTH: Final = 100  # of a parameter, in an error response

_FORWARDED: Final = (hdrs.ALLOW, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
_DETAILS: Final = {
    HTTPStatus.NOT_FOUND: "The path does not exist; /api/v1/openapi.json lists all paths.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The API supports GET and HEAD; only /api/v1/requests also supports POST.",
}

Query = Mapping[str, Any]
"""Parameters of a request by name: a tuple of one that may be repeated, else its value or its default."""


class ProblemView(View):
    """RFC 9457 problem: why a request was rejected or failed."""

    type: str = at("Always `about:blank`: the status identifies the problem.", default="about:blank")
    title: str = at("The reason phrase of the status.")
    status: int
    detail: str = at("The error of this request, in one sentence.")


class RequestError(Exception):
    """A request that is rejected; the text states the reason, ``retry`` is sent as ``Retry-After``."""

    def __init__(self, status: HTTPStatus, detail: str, retry: int = 0) -> None:
        super().__init__(detail)
        self.status, self._headers = status, {"Retry-After": str(retry)} if retry else {}

    def response(self) -> web.Response:
        """Return the problem as a response."""
        return _problem(self.status, str(self), self._headers)


def wrong_parameters(wrong: Sequence[tuple[str, str]]) -> RequestError:
    """Return the rejection of a request for its parameters; each problem follows "The parameter …"."""
    detail = " ".join(f"The parameter {name} {problem}." for name, problem in wrong)
    return RequestError(HTTPStatus.BAD_REQUEST, detail)


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Convert every error response under the API's path to a problem."""
    if not f"{request.path}/".startswith(f"{ROOT}/"):
        return await handler(request)
    try:
        response = await handler(request)
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        return _problem(status, _DETAILS.get(status, status.description), error.headers)
    is_final = response.prepared or response.content_type == PROBLEM
    if response.status < HTTPStatus.BAD_REQUEST or is_final or not isinstance(response, web.Response):
        return response
    problem = _problem(HTTPStatus(response.status), (response.text or "").strip(), response.headers)
    if response.keep_alive is False:
        problem.force_close()
    return problem


def _problem(status: HTTPStatus, detail: str, headers: Mapping[str, str]) -> web.Response:
    view = ProblemView(title=status.phrase, status=status, detail=detail)
    forwarded = {str(name): headers[name] for name in _FORWARDED if name in headers}
    return web.Response(
        status=status, body=view.model_dump_json().encode(), headers={**forwarded, "Content-Type": PROBLEM}
    )


class Parameter(NamedTuple):
    """A parameter of a query, or a header: any text, unless its schema or its reader allow less."""

    name: str
    description: str
    problem: str = ""  # of an invalid value; it follows "The parameter …"
    schema: Mapping[str, Any] = {"type": "string"}  # its pattern, enum and maximum length are checked
    read: Callable[[str], Any] = str  # of a valid text; it raises ValueError
    repeats: bool = True  # selects any of several values
    default: object = None  # if it does not repeat
    example: str = ""

    def value(self, text: str) -> Any:  # noqa: ANN401  any value
        """Return the value of a text, or raise ValueError."""
        pattern, choices = self.schema.get("pattern", "(?s:.*)"), self.schema.get("enum", (text,))
        is_short = len(text) <= self.schema.get("maxLength", len(text))
        if not (is_short and text in choices and re.fullmatch(pattern, text, re.ASCII)):
            raise ValueError(self.problem)
        return self.read(text)


def read(parameters: Sequence[Parameter], query: MultiMapping[str]) -> Query:
    """Return the validated parameters of a request, or raise RequestError, which names all wrong ones."""
    if len(query) > MAX_PARAMETERS:
        detail = f"The request has {len(query)} parameters; the maximum is {MAX_PARAMETERS}."
        raise RequestError(HTTPStatus.BAD_REQUEST, detail)
    known = {each.name: each for each in parameters}
    found = {each.name: () if each.repeats else each.default for each in parameters}
    wrong: list[tuple[str, str]] = []
    for name in dict.fromkeys(query):
        parameter, texts = known.get(name), query.getall(name)
        if parameter is None:
            wrong.append((name[:_MAX_NAME_LENGTH], f"is unknown; there are {', '.join(known) or 'none'}"))
        elif len(texts) > 1 and not parameter.repeats:
            wrong.append((name, "is repeated"))
        else:
            try:
                values = tuple(map(parameter.value, dict.fromkeys(texts)))
                found[name] = values if parameter.repeats else values[0]
            except ValueError:
                wrong.append((name, parameter.problem))
    if wrong:
        raise wrong_parameters(wrong)
    return found


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path and method of the API. The OpenAPI document is generated from it."""

    method: str  # GET, which includes HEAD, or POST
    path: str
    name: str  # the operationId
    summary: str
    respond: Callable[[web.Request, Query], Awaitable[bytes]]
    model: type[View] | None = None  # of the response
    parameters: Sequence[Parameter] = ()
    body: type[Struct] | None = None  # one item of a POST body
    headers: Sequence[Parameter] = ()  # that it reads

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Parse the query and respond with JSON; convert errors to problems."""
        try:
            body = await self.respond(request, read(self.parameters, request.query))
            return await packed_response(request, body, JSON)
        except RequestError as error:
            return error.response()
