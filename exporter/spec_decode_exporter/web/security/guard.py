"""What stands before every page: the rate limit and the passwords of the web configuration."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

from aiohttp import hdrs, web

from spec_decode_exporter.core.token_bucket import TokenBucket
from spec_decode_exporter.web.security.check_queue import CheckQueueFullError
from spec_decode_exporter.web.security.passwords import Passwords
from spec_decode_exporter.web.server.client_address import client_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp.typedefs import Handler, Middleware

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.web.security.live_config import LiveWebConfig
    from spec_decode_exporter.web.security.schema import RateLimit

_SCHEME: Final = "basic "
_CHALLENGE: Final = 'Basic realm="spec-decode-exporter", charset="UTF-8"'


class Guard:
    """Lets requests pass, or answers them itself, by the web configuration as it is at that moment."""

    def __init__(self, live: LiveWebConfig, clock: Clock) -> None:
        self._live = live
        self._clock = clock
        self._passwords = Passwords()
        self._limit: RateLimit | None = None
        self._bucket: TokenBucket | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that every answer carries besides the exporter's own, or in their place."""
        return self._live.current.settings.http_server_config.headers

    @property
    def middleware(self) -> Middleware:
        """The middleware that asks this guard first."""

        @web.middleware
        async def ask(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._refusal(request) or await handler(request)

        return ask

    async def _refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer to a request that may not pass."""
        if not self._in_time():
            return _refused(429, "Too many requests; come again later.")
        users = self._live.current.settings.basic_auth_users
        if not users:
            return None
        given = _credentials(request.headers.get(hdrs.AUTHORIZATION, ""))
        try:
            if given is not None and await self._passwords.match(users, *given, **_asked_by(request)):
                return None
        except CheckQueueFullError:
            return _refused(503, "Too many passwords wait to be checked; come again later.")
        return _refused(401, "Unauthorized", **{hdrs.WWW_AUTHENTICATE: _CHALLENGE})

    def _in_time(self) -> bool:
        limit = self._live.current.settings.rate_limit
        if limit != self._limit:
            self._limit = limit
            self._bucket = (
                TokenBucket(limit.burst, limit.interval, self._clock.monotonic) if limit.interval else None
            )
        return self._bucket is None or self._bucket.take()


def _asked_by(request: web.Request) -> dict[str, Any]:
    """Return what the queue of checks must know about a client."""
    transport = request.transport
    return {
        "address": client_address(transport),
        "gone": lambda: transport is None or transport.is_closing(),
    }


def _refused(status: int, text: str, **headers: str) -> web.Response:
    """Answer and hang up: who is not let in holds no connection."""
    if status != web.HTTPUnauthorized.status_code:
        headers[hdrs.RETRY_AFTER] = "1"
    answer = web.Response(status=status, text=f"{text}\n", headers=headers)
    answer.force_close()
    return answer


def _credentials(header: str) -> tuple[str, bytes] | None:
    """Return user and password of an ``Authorization`` header; None where it holds none."""
    if not header.lower().startswith(_SCHEME):
        return None
    try:
        pair = b64decode(header[len(_SCHEME) :].strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    name, colon, password = pair.partition(b":")
    return (name.decode("utf-8", "surrogateescape"), password) if colon else None
