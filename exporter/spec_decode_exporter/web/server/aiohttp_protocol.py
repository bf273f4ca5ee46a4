"""aiohttp's protocol of a connection, with the exporter's responses to requests that reach no handler."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.web.server.plain_response import DEFAULT_HEADERS, INTERNAL_ERROR, error_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_TEXTS: Final = {
    HTTPStatus.BAD_REQUEST: "The request is not valid HTTP/1.1.",
    HTTPStatus.EXPECTATION_FAILED: "The only supported expectation is `Expect: 100-continue`.",
    HTTPStatus.INTERNAL_SERVER_ERROR: INTERNAL_ERROR,
}
_CONTINUE: Final = "100-continue"


class HttpProtocol(web.RequestHandler):
    """Protocol of a connection that hides details in its error responses.

    aiohttp's own response to an invalid request repeats a part of it, and names the versions of aiohttp and
    Python.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to an invalid request, or to one that failed before its handler.

        Raises:
            ConnectionError: A response has begun already.
        """
        super().handle_error(request, status, exc, message)  # it logs the error
        return _error(HTTPStatus(status))


def reject_expectations(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return the handler of all requests, with a 417 response to any unknown ``Expect`` header.

    aiohttp's response repeats the header before authentication. It fails on a header that is not UTF-8, and
    each such request would log a traceback.
    """

    async def handle_expected(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get(hdrs.EXPECT, _CONTINUE).lower() != _CONTINUE:
            return _error(HTTPStatus.EXPECTATION_FAILED)
        return await handle(request)

    return handle_expected


def _error(status: HTTPStatus) -> web.Response:
    return error_response(status, _TEXTS.get(status, status.phrase), headers=DEFAULT_HEADERS, close=True)
