"""RFC 9457 problems: the form of all errors under the API's path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web
from pydantic import Field

from spec_decode_exporter.views.document import View

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

CONTENT_TYPE: Final = "application/problem+json"
ROOT: Final = "/api"

_FORWARDED: Final = (hdrs.ALLOW, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
_DETAILS: Final = {
    HTTPStatus.NOT_FOUND: "The path does not exist; /api/v1/openapi.json lists all paths.",
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "The API supports GET and HEAD; only /api/v1/requests also supports POST."
    ),
}


class ParameterProblem(View):
    """Error in one parameter of a request."""

    name: str
    problem: str = Field(description="The error, and valid values.")


class ProblemView(View):
    """RFC 9457 problem: why a request was rejected or failed."""

    type: str = Field(
        default="about:blank", description="Always `about:blank`: the status identifies the problem."
    )
    title: str = Field(description="The reason phrase of the status.")
    status: int
    detail: str = Field(description="The error of this request, in one sentence.")
    parameters: tuple[ParameterProblem, ...] = Field(
        default=(), description="Invalid parameters; empty for other errors."
    )


class RequestError(Exception):
    """A request that is rejected; the text states the reason."""

    def __init__(
        self, status: HTTPStatus, detail: str, parameters: Sequence[tuple[str, str]] = (), retry: int = 0
    ) -> None:
        """Reject a request with a status.

        Args:
            status: 400 or more.
            detail: The error.
            parameters: Names of invalid parameters, each with its error.
            retry: Seconds after which the client may repeat the request; 0 sends no ``Retry-After``.
        """
        super().__init__(detail)
        self.status = status
        self.parameters = tuple(ParameterProblem(name=name, problem=problem) for name, problem in parameters)
        self._headers = {"Retry-After": str(retry)} if retry else {}

    def response(self) -> web.Response:
        """Return the problem as a response."""
        return _problem(self.status, str(self), self._headers, self.parameters)


def wrong_parameter(name: str, problem: str) -> RequestError:
    """Return the rejection of a request for one of its parameters."""
    return RequestError(HTTPStatus.BAD_REQUEST, f"The parameter {name} {problem}.", [(name, problem)])


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Convert every error response under the API's path to a problem."""
    if request.path != ROOT and not request.path.startswith(f"{ROOT}/"):
        return await handler(request)
    try:
        response = await handler(request)
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        return _problem(status, _DETAILS.get(status, status.description), error.headers)
    is_final = response.prepared or response.content_type == CONTENT_TYPE
    if response.status < HTTPStatus.BAD_REQUEST or is_final or not isinstance(response, web.Response):
        return response
    problem = _problem(HTTPStatus(response.status), (response.text or "").strip(), response.headers)
    if response.keep_alive is False:
        problem.force_close()
    return problem


def _problem(
    status: HTTPStatus, detail: str, headers: Mapping[str, str], parameters: Sequence[ParameterProblem] = ()
) -> web.Response:
    view = ProblemView(title=status.phrase, status=status, detail=detail, parameters=tuple(parameters))
    forwarded = {str(name): headers[name] for name in _FORWARDED if name in headers}
    return web.Response(
        status=status,
        body=view.model_dump_json().encode(),
        headers={**forwarded, "Content-Type": CONTENT_TYPE},
    )
