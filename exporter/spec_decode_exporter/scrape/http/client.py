"""The client that polls: one bounded GET at a time, over one connection (docs/decisions/0001 says why)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from dataclasses import dataclass
from time import thread_time
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.scrape.http import credentials
from spec_decode_exporter.scrape.http.connection import Connection, UnansweredError
from spec_decode_exporter.scrape.http.origin import Origin
from spec_decode_exporter.scrape.http.origin import split as split_url
from spec_decode_exporter.scrape.http.resolver import CONFIG_RESOLVER, Resolver
from spec_decode_exporter.scrape.http.response import ResponseParser
from spec_decode_exporter.scrape.poll_errors import PollError, Reason

if TYPE_CHECKING:
    from spec_decode_exporter.config.schema import HttpSettings

USER_AGENT_PREFIX: Final = "spec-decode-exporter/"
"""Beginning of the exporter's User-Agent."""

_HEADERS: Final = {
    "User-Agent": f"{USER_AGENT_PREFIX}{__version__}",
    # Not a word of OpenMetrics: prometheus_client, behind vLLM's filtered page, would write it whatever the
    # q-values say, and rename what has a colon in its name. Who writes nothing else is read all the same.
    "Accept": "text/plain;version=0.0.4, */*;q=0.1",
    # To compress a page costs the server more than to send it a few metres.
    "Accept-Encoding": "identity",
}
_REASONS: Final[tuple[tuple[type[Exception], Reason], ...]] = (
    (TimeoutError, "timeout"),
    (ssl.SSLError, "tls"),
    (socket.gaierror, "dns"),
    (UnicodeError, "dns"),  # a name that no DNS name can be
    (OSError, "refused"),
)
"""What an error of the network means: the first row that fits."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a server answered with status 200."""

    body: bytes
    """Decompressed, and whole."""
    content_type: str
    """As the server wrote it; empty if it did not."""
    seconds: float
    """From the request to the last byte of the answer, without the time to connect."""
    busy: float = 0.0
    """Seconds of these in which our own event loop worked, so that they tell nothing of the server."""


class Client:
    """Asks one server for pages, one after the other: never two requests at once."""

    def __init__(
        self, http: HttpSettings, *, timeout: float, max_body: int, resolver: Resolver = CONFIG_RESOLVER
    ) -> None:
        self._http = http
        self._resolver = resolver
        self._timeout = timeout
        self._max_body = max_body
        self._connection: Connection | None = None
        self._origin: Origin | None = None
        self.spent = 0.0
        """Processor seconds that taking in all answers has cost, also of those that failed."""

    async def get(self, address: str, *, max_body: int | None = None) -> HttpResponse:
        """Return the page at an http or https URL; raise ``PollError`` in every other case.

        All of it together, from looking up the name to the last byte, takes at most ``timeout`` seconds.
        ``max_body``, in bytes, lowers the client's limit for this page.
        """
        most = self._max_body if max_body is None else min(max_body, self._max_body)
        origin, path = split_url(address)
        request = self._request(origin, path)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._ask(origin, request, most)
        except BaseException as error:
            self._drop()
            if isinstance(error, OSError | UnicodeError):
                raise self._failure(error, origin) from None
            raise

    async def close(self) -> None:
        """Close the connection. The client can still be used; it opens another then."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _request(self, origin: Origin, path: str) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: {origin.authority}"]
        headers = _HEADERS | credentials.headers(self._http)
        lines.extend(f"{name}: {value}" for name, value in headers.items())
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    async def _ask(self, origin: Origin, request: bytes, most: int) -> HttpResponse:
        """Use the connection that is open; where the server has just closed it, one that is new."""
        connection = self._connection
        if connection is not None and connection.open and origin == self._origin:
            # A server may close an idle connection just when it is used again: that is nobody's fault.
            with contextlib.suppress(UnansweredError):
                return await self._ask_on(connection, request, most)
        self._drop()
        return await self._ask_on(await self._connect(origin), request, most)

    async def _ask_on(self, connection: Connection, request: bytes, most: int) -> HttpResponse:
        answer = ResponseParser(most)
        try:
            busy_before = thread_time()
            seconds = await connection.ask(request, answer)
            busy = thread_time() - busy_before
        except BaseException:
            answer.discard()
            raise
        finally:
            self.spent += answer.spent
        if not answer.keep_alive:
            self._drop()
        return HttpResponse(answer.body(), answer.content_type, seconds, min(busy, seconds))

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
                    Connection, host, origin.port, ssl=context, server_hostname=name
                )
            except OSError as error:
                failure = error
            else:
                return self._connection
        raise failure or OSError("the name has no address")

    def _drop(self) -> None:
        """Close the connection without waiting for it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def _failure(self, error: OSError | UnicodeError, origin: Origin) -> PollError:
        """Return what an error of the network means for the poll."""
        reason = next(reason for kind, reason in _REASONS if isinstance(error, kind))
        if reason == "timeout":
            return PollError(reason, f"no whole answer from {origin} within {self._timeout:g} s")
        if isinstance(error, socket.gaierror):
            return PollError(reason, f"{origin}: {error.strerror or error}")
        number = error.errno if isinstance(error, OSError) and reason == "refused" else None
        return PollError(reason, f"{origin}: {os.strerror(number) if number else error}")
