"""Errors as RFC 9457 problems, whoever in the exporter refuses a request for the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web
from pydantic import Field

from spec_decode_exporter.views.models import View

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

CONTENT_TYPE: Final = "application/problem+json"
ROOT: Final = "/api"

_KEPT: Final = (hdrs.ALLOW, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
_DETAILS: Final = {
    HTTPStatus.NOT_FOUND: "There is no such page; /api/v1/openapi.json names them all.",
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "The API is only read, with GET and HEAD; only to /api/v1/requests something is sent, with POST."
    ),
}


class ParameterProblem(View):
    """What is wrong with one parameter of a request."""

    name: str
    problem: str = Field(description="What is wrong, and what would be right.")


class ProblemView(View):
    """Why a request was not answered: RFC 9457."""

    type: str = Field(default="about:blank", description="The status says what kind of problem it is.")
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What is wrong with this request, in a sentence.")
    parameters: tuple[ParameterProblem, ...] = Field(
        default=(), description="The parameters that are wrong; empty if it is something else."
    )


class RequestError(Exception):
    """A request that cannot be answered; the text says why."""

    def __init__(
        self, status: HTTPStatus, detail: str, parameters: Sequence[tuple[str, str]] = (), retry: int = 0
    ) -> None:
        """Refuse with a status.

        Args:
            status: From 400 on.
            detail: What is wrong.
            parameters: The names of wrong parameters, each with what is wrong.
            retry: Seconds after which the same request may be answered; 0 is never.
        """
        super().__init__(detail)
        self.status = status
        self.parameters = tuple(ParameterProblem(name=name, problem=problem) for name, problem in parameters)
        self._headers = {"Retry-After": str(retry)} if retry else {}

    def answer(self) -> web.Response:
        """Return what tells the client."""
        return _problem(self.status, str(self), self._headers, self.parameters)


def wrong_parameter(name: str, problem: str) -> RequestError:
    """Return the refusal of a request for one of its parameters."""
    return RequestError(HTTPStatus.BAD_REQUEST, f"The parameter {name} {problem}.", [(name, problem)])


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Make a problem of whatever is answered with an error under the API's path."""
    if request.path != ROOT and not request.path.startswith(f"{ROOT}/"):
        return await handler(request)
    try:
        answer = await handler(request)
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        return _problem(status, _DETAILS.get(status, status.description), error.headers)
    told = answer.prepared or answer.content_type == CONTENT_TYPE
    if answer.status < HTTPStatus.BAD_REQUEST or told or not isinstance(answer, web.Response):
        return answer
    problem = _problem(HTTPStatus(answer.status), (answer.text or "").strip(), answer.headers)
    if answer.keep_alive is False:
        problem.force_close()
    return problem


def _problem(
    status: HTTPStatus, detail: str, headers: Mapping[str, str], parameters: Sequence[ParameterProblem] = ()
) -> web.Response:
    view = ProblemView(title=status.phrase, status=status, detail=detail, parameters=tuple(parameters))
    kept = {str(name): headers[name] for name in _KEPT if name in headers}
    return web.Response(
        status=status, body=view.model_dump_json().encode(), headers={**kept, "Content-Type": CONTENT_TYPE}
    )
