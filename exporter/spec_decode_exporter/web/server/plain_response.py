"""Headers of every response, and the plain-text error response of all pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http import HTTPStatus

DEFAULT_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Server": "spec-decode-exporter",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

INTERNAL_ERROR: Final = "The exporter failed to answer; see its log."


def error_response(
    status: HTTPStatus,
    text: str,
    *,
    headers: Mapping[str, str] | None = None,
    retry_after: int = 0,
    close: bool = False,
) -> web.Response:
    """Return an error as plain text. For paths of the API, a middleware turns it into a problem.

    Args:
        status: 400 or more.
        text: One sentence, without the line's end.
        headers: Headers besides the default ones.
        retry_after: Seconds after which the client may repeat the request; 0 sends no ``Retry-After``.
        close: Close the connection after the response.
    """
    response = web.Response(status=status, text=f"{text}\n", headers=headers)
    if retry_after:
        response.headers[hdrs.RETRY_AFTER] = str(retry_after)
    if close:
        response.force_close()
    return response
