"""aiohttp's protocol of a connection, in our words where no page is there to answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from aiohttp import web

from exporter.web.headers import HEADERS

_SAID: Final = {
    HTTPStatus.BAD_REQUEST: "This is no request of HTTP/1.1 that can be read here.\n",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The exporter failed to answer; its log says why.\n",
}


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
        answer = web.Response(status=status, text=_SAID.get(HTTPStatus(status), ""), headers=HEADERS)
        answer.force_close()
        return answer
