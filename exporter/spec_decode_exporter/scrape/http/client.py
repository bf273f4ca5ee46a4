"""HTTP client: one bounded GET at a time, over one connection (see docs/maintainers/decisions, 1)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from time import thread_time
from typing import TYPE_CHECKING, Final, NamedTuple

from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.scrape.errors import PollError, Reason
from spec_decode_exporter.scrape.http import credentials
from spec_decode_exporter.scrape.http.connection import Connection, UnansweredError
from spec_decode_exporter.scrape.http.origin import Origin
from spec_decode_exporter.scrape.http.origin import split as split_url
from spec_decode_exporter.scrape.http.resolver import CONFIG_RESOLVER, Resolver
from spec_decode_exporter.scrape.http.timeout_sweep import TimeoutSweep

if TYPE_CHECKING:
    from spec_decode_exporter.config.http_settings import HttpSettings

USER_AGENT_PREFIX: Final = "spec-decode-exporter/"
"""Beginning of the exporter's User-Agent, whose polls another exporter rejects."""
COMMAND_AGENT: Final = f"spec-decode-exporter-command/{__version__}"
"""User-Agent of a command that reads an exporter."""

_HEADERS: Final = {
    "User-Agent": f"{USER_AGENT_PREFIX}{__version__}",
    # Without OpenMetrics: prometheus_client, behind vLLM's filtered page, prefers it whatever the q-values
    # are, and then renames series with a colon. A server that only writes OpenMetrics is read too.
    "Accept": "text/plain;version=0.0.4, */*;q=0.1",
    # Compression costs the server more than it saves on a local network.
    "Accept-Encoding": "identity",
}
_KEPT_REQUESTS: Final = 3
"""Requests that a client keeps: for a page without histograms, with them, and for the whole page."""
_REASONS: Final[tuple[tuple[type[Exception], Reason], ...]] = (
    (TimeoutError, "timeout"),
    (ssl.SSLError, "tls"),
    (socket.gaierror, "dns"),
    (UnicodeError, "dns"),  # no valid DNS name
    (OSError, "refused"),
)
"""Network errors and their reasons; the first match counts."""


class HttpResponse(NamedTuple):
    """A complete response with status 200."""

    body: bytes
    """Decompressed."""
    content_type: str
    """Value of the header; empty if absent."""
    seconds: float
    """Seconds from the request to the last byte of the response, without connecting."""
    busy: float = 0.0
    """Seconds of these in which the exporter's event loop worked: not caused by the server."""


class _Request(NamedTuple):
    """The request for an address, as it is sent."""

    origin: Origin
    head: bytes


class Client:
    """Client of one server: one request at a time."""

    def __init__(
        self,
        http: HttpSettings,
        *,
        timeout: float,
        max_body: int,
        resolver: Resolver = CONFIG_RESOLVER,
        timeouts: TimeoutSweep | None = None,
        is_command: bool = False,
    ) -> None:
        """Be ready for the first request.

        Args:
            http: Credentials and TLS settings.
            timeout: Maximum seconds of a request.
            max_body: Maximum bytes of a body.
            resolver: Resolves the server's name.
            timeouts: Ends requests that take too long, also those of other clients.
            is_command: Read an exporter: with ``COMMAND_AGENT``, and the problem of a rejected request.
        """
        self._is_command = is_command
        self._http = http
        self._resolver = resolver
        self._timeout = timeout
        self._timeouts = timeouts or TimeoutSweep()
        self._max_body = max_body
        self._connection: Connection | None = None
        self._origin: Origin | None = None
        self._has_secret_files = credentials.has_secret_files(http)
        self._requests: dict[str, _Request] = {}
        """The last few requests by address."""
        self.spent = 0.0
        """Processor seconds of receiving all responses, failed ones included."""

    async def get(self, address: str, *, max_body: int | None = None) -> HttpResponse:
        """Return the page at an http or https URL.

        The whole request, from DNS to the last byte, takes at most ``timeout`` seconds. ``max_body`` (bytes)
        lowers the client's limit for this page.

        Raises:
            PollError: There is no response with status 200 within the limits.
        """
        limit = self._max_body if max_body is None else min(max_body, self._max_body)
        request = self._request(address)
        deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            return await self._send(request, limit, deadline)
        except BaseException as error:
            self._drop()
            if isinstance(error, OSError | UnicodeError):
                raise self._failure(error, request.origin) from None
            raise

    async def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _request(self, address: str) -> _Request:
        """Return the request for an address: the same again, unless a secret may have changed."""
        request = self._requests.get(address)
        if request is None or self._has_secret_files:
            if len(self._requests) >= _KEPT_REQUESTS:
                self._requests.clear()
            origin, path = split_url(address)
            request = self._requests[address] = _Request(origin, self._head(origin, path))
        return request

    def _head(self, origin: Origin, path: str) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: {origin.authority}"]
        agent = {"User-Agent": COMMAND_AGENT} if self._is_command else {}
        headers = _HEADERS | agent | credentials.headers(self._http)
        lines.extend(f"{name}: {value}" for name, value in headers.items())
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    async def _send(self, request: _Request, limit: int, deadline: float) -> HttpResponse:
        """Send the request on the open connection; on a new one if the server has just closed that."""
        connection = self._connection
        if connection is not None and connection.open and request.origin == self._origin:
            # A server may close an idle connection at the moment of its next use: no failure.
            with contextlib.suppress(UnansweredError):
                return await self._send_on(connection, request, limit, deadline)
        self._drop()
        async with asyncio.timeout_at(deadline):
            connection = await self._connect(request.origin)
        return await self._send_on(connection, request, limit, deadline)

    async def _send_on(
        self, connection: Connection, request: _Request, limit: int, deadline: float
    ) -> HttpResponse:
        parser = connection.parser
        busy_before = thread_time()
        try:
            seconds = await connection.send(request.head, max_body=limit, deadline=deadline)
        except BaseException:
            parser.discard()
            raise
        finally:
            self.spent += parser.spent
        if not parser.keep_alive:
            self._drop()
        if parser.failure is not None:
            parser.failure.problem = parser.body()
            raise parser.failure
        busy = min(parser.fed_at - busy_before, seconds)
        return HttpResponse(parser.body(), parser.content_type, seconds, busy)

    async def _connect(self, origin: Origin) -> Connection:
        secure = origin.scheme == "https"
        tls = self._http.tls_config
        context = credentials.ssl_context(self._http) if secure else None
        name = ((tls and tls.server_name) or origin.host) if secure else None
        self._origin = origin
        failure: OSError | None = None
        for host in await self._resolver.look_up(origin.host, origin.port):
            try:
                _, self._connection = await asyncio.get_running_loop().create_connection(
                    self._new_connection, host, origin.port, ssl=context, server_hostname=name
                )
            except OSError as error:
                failure = error
            else:
                return self._connection
        raise failure or OSError("the name has no address")

    def _new_connection(self) -> Connection:
        return Connection(self._timeouts, reads_problems=self._is_command)

    def _drop(self) -> None:
        """Close the connection without waiting for it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def _failure(self, error: OSError | UnicodeError, origin: Origin) -> PollError:
        """Return the poll error for a network error."""
        reason = next(reason for kind, reason in _REASONS if isinstance(error, kind))
        if reason == "timeout":
            return PollError(reason, f"no whole answer from {origin} within {self._timeout:g} s")
        if isinstance(error, socket.gaierror):
            return PollError(reason, f"{origin}: {error.strerror or error}")
        number = error.errno if isinstance(error, OSError) and reason == "refused" else None
        return PollError(reason, f"{origin}: {os.strerror(number) if number else error}")
