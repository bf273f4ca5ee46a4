"""Middleware that applies the rate limit and the passwords of the web configuration to every request."""

from __future__ import annotations

import binascii
from base64 import b64decode
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.core.recurring import TokenBucket
from spec_decode_exporter.web.security.passwords import Passwords
from spec_decode_exporter.web.server.client_address import client_address
from spec_decode_exporter.web.server.fair_queue import QueueFullError
from spec_decode_exporter.web.server.plain_response import error_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp.typedefs import Handler, Middleware

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.web.security.live_config import LiveWebConfig
    from spec_decode_exporter.web.security.schema import RateLimit

_SCHEME: Final = "basic "
_CHALLENGE: Final[Mapping[str, str]] = {
    hdrs.WWW_AUTHENTICATE: 'Basic realm="spec-decode-exporter", charset="UTF-8"'
}
_RETRY_SECONDS: Final = 1


class Guard:
    """Accepts or rejects requests by the web configuration that is active at the moment of the request."""

    def __init__(self, live: LiveWebConfig, clock: Clock) -> None:
        self._live = live
        self._clock = clock
        self._passwords = Passwords()
        self._limit: RateLimit | None = None
        self._bucket: TokenBucket | None = None

    @property
    def middleware(self) -> Middleware:
        """The middleware that calls this guard first."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._rejection(request) or await handler(request)

        return check

    async def _rejection(self, request: web.Request) -> web.Response | None:
        """Return the response to a rejected request; None if the request is accepted.

        Every rejection closes the connection, so clients without access hold none.
        """
        if not self._is_within_rate():
            text = "Too many requests; retry later."
            return error_response(HTTPStatus.TOO_MANY_REQUESTS, text, retry_after=_RETRY_SECONDS, close=True)
        try:
            if await self._is_authorized(request):
                return None
        except QueueFullError:
            text = "Too many passwords wait to be checked; retry later."
            return error_response(
                HTTPStatus.SERVICE_UNAVAILABLE, text, retry_after=_RETRY_SECONDS, close=True
            )
        return error_response(HTTPStatus.UNAUTHORIZED, "Unauthorized", headers=_CHALLENGE, close=True)

    async def _is_authorized(self, request: web.Request) -> bool:
        users = self._live.current.settings.basic_auth_users
        if not users:
            return True
        credentials = _credentials(request.headers.get(hdrs.AUTHORIZATION, ""))
        if credentials is None:
            return False
        transport = request.transport
        return await self._passwords.match(
            users,
            *credentials,
            address=client_address(transport),
            is_closing=lambda: transport is None or transport.is_closing(),
        )

    def _is_within_rate(self) -> bool:
        limit = self._live.current.settings.rate_limit
        if limit != self._limit:
            self._limit = limit
            self._bucket = (
                TokenBucket(limit.burst, limit.interval, self._clock.monotonic) if limit.interval else None
            )
        return self._bucket is None or self._bucket.take()


def _credentials(header: str) -> tuple[str, bytes] | None:
    """Return user and password of an ``Authorization`` header; None if it is not valid Basic."""
    if not header.lower().startswith(_SCHEME):
        return None
    try:
        pair = b64decode(header[len(_SCHEME) :].strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    name, colon, password = pair.partition(b":")
    return (name.decode("utf-8", "surrogateescape"), password) if colon else None
