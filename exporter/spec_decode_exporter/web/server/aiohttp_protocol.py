"""aiohttp's protocol of a connection, in our words where no page is there to answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.web.server.headers import HEADERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_SAID: Final = {
    HTTPStatus.BAD_REQUEST: "This is no request of HTTP/1.1 that can be read here.\n",
    HTTPStatus.EXPECTATION_FAILED: "Only `Expect: 100-continue` is known here.\n",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The exporter failed to answer; its log says why.\n",
}
_KNOWN: Final = "100-continue"


class Answering(web.RequestHandler):
    """Answers the requests of a connection.

    aiohttp's own answer to what it cannot read repeats some of it, and tells whoever asks the versions of it
    and of Python.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to what cannot be read, and to what failed before any page was asked.

        Raises:
            ConnectionError: An answer has begun already.
        """
        super().handle_error(request, status, exc, message)  # which logs it
        return _answer(HTTPStatus(status))


def refuse_expectations(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return the handler of all requests with an answer of our own to an ``Expect`` header that is not known.

    aiohttp's repeats the header, before any password is asked, and fails on one that is not UTF-8. Then each
    request would log a traceback.
    """

    async def handle_others(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get(hdrs.EXPECT, _KNOWN).lower() != _KNOWN:
            return _answer(HTTPStatus.EXPECTATION_FAILED)
        return await handle(request)

    return handle_others


def _answer(status: HTTPStatus) -> web.Response:
    answer = web.Response(status=status, text=_SAID.get(status, ""), headers=HEADERS)
    answer.force_close()
    return answer
