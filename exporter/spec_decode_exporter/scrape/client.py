"""HTTP client: one bounded GET at a time over a persistent connection; llhttp (httptools) parses it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import zlib
from functools import lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from time import thread_time
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from spec_decode_exporter.core.tasks import ThreadPool, yield_to_event_loop
from spec_decode_exporter.core.urls import Url
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.scrape import credentials
from spec_decode_exporter.scrape.errors import PollError, Reason, StatusError, rejection_words

if TYPE_CHECKING:
    from spec_decode_exporter.config.http_settings import HttpSettings

MAX_FRAMING: Final = 64 * 2**10  # bytes of a rejection, or of a response besides its body: head, chunks
MAX_URLS: Final = 4  # addresses of a server whose URLs are kept: parsing that of a filtered page takes 0.1 ms
MIN_PIECES: Final = 1024
PIECE_BYTES: Final = 1024
"""Maximum pieces of a response: ``MIN_PIECES``, and one for every ``PIECE_BYTES`` of the body's limit."""

_HEADERS: Final = {
    "User-Agent": f"spec-decode-exporter/{__version__}",
    # Without OpenMetrics: prometheus_client, behind vLLM's filtered page, prefers it whatever the q-values
    # are, and then renames series with a colon. A server that only writes OpenMetrics is read too.
    "Accept": "text/plain;version=0.0.4, */*;q=0.1",
    # Compression costs the server more than it saves on a local network.
    "Accept-Encoding": "identity",
}
_REASONS: Final[dict[type[Exception], Reason]] = {
    TimeoutError: "timeout",
    ssl.SSLError: "tls",
    socket.gaierror: "dns",
    UnicodeError: "dns",  # no valid DNS name
    OSError: "refused",
}
"""Network errors and their reasons; the first match counts."""


class HttpResponse(NamedTuple):
    """A complete response with status 200."""

    body: bytes  # decompressed
    content_type: str  # value of the header; empty if absent
    seconds: float  # seconds from the request to the last byte of the response, without connecting
    busy: float = 0.0  # seconds of these in which the exporter's event loop worked, not the server


class UnansweredError(ConnectionResetError):
    """The connection ended before the first byte of the response."""


class Resolver(ThreadPool):
    """Threads for look-ups by the system's resolver: one without a response takes 10 s or more."""

    async def look_up(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> list[str]:
        """Return the distinct addresses of a host, in the order of the system.

        Raises:
            OSError: The name is unknown, or no name server responds.
            UnicodeError: The name is invalid.
        """
        with contextlib.suppress(ValueError):
            return [str(ip_address(host))]
        found = await self.run(socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


CONFIG_RESOLVER: Final = Resolver("resolver", 32)
LIST_RESOLVER: Final = Resolver("list-resolver", 16)
"""Resolvers of configured names, and of those in discovered lists, which cannot block the others."""


class ResponseParser:
    """Parser of one response, without I/O: llhttp calls it back, and it keeps the response within limits."""

    def __init__(self, max_body: int, request: bytes = b"") -> None:
        """Expect a body of at most ``max_body`` bytes, before and after decompression.

        ``request`` is the head of the request: no secret in it is repeated.
        """
        self._parser, self._max_body, self._request = HttpResponseParser(self), max_body, request
        self._body: bytes | bytearray = b""
        self._headers: dict[bytes, bytes] = {}
        self._pieces = MIN_PIECES + max_body // PIECE_BYTES
        self._status = HTTPStatus.OK.value
        self._has_head = self.is_complete = self.keep_alive = False
        self.received = 0  # bytes

    def feed(self, data: bytes | memoryview) -> None:
        """Parse the next bytes; the caller may overwrite them afterwards.

        Raises:
            PollError: The response is unusable.
        """
        self.received += len(data)
        self._pieces -= 1
        if self._pieces < 0:
            raise PollError("too_large", "the answer comes in too many small pieces")
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise StatusError(HTTPStatus.SWITCHING_PROTOCOLS) from None
        except HttpParserError as error:
            self.keep_alive = False
            if not self.is_complete:  # data after a complete response does not matter
                if isinstance(error.__context__, PollError):  # of a callback: llhttp raises one of its own
                    raise error.__context__ from None
                raise PollError("malformed", f"not an HTTP answer: {error}") from None
        if self.is_complete:
            self._finish()
        elif self.received - len(self._body) > MAX_FRAMING:
            raise PollError("too_large", f"the answer has more than {MAX_FRAMING} bytes besides its body")

    def end(self) -> None:
        """Handle the end of the connection: it also ends a body without a declared length."""
        is_framed = self._headers.keys() & {b"content-length", b"transfer-encoding"}
        if not self._has_head or (is_framed and self._status == HTTPStatus.OK):
            raise PollError("malformed", "the server closed the connection in the middle of its answer")
        self.is_complete = True
        self._finish()

    def header(self, name: bytes) -> str:
        """Return the value of a header; empty if absent."""
        return self._headers.get(name, b"").decode("latin-1")

    def body(self) -> bytes:
        """Return the whole body, decompressed."""
        return bytes(self._body)

    def close(self) -> None:
        """Release body and parser: errors refer to them by tracebacks, and the parser to this object."""
        del self._parser
        self._body = b""

    def _finish(self) -> None:
        """Raise a status other than 200 with the server's reason; decompress what a proxy compressed."""
        if self._status != HTTPStatus.OK:
            words = rejection_words(bytes(self._body), self.header(b"content-type"))
            raise StatusError(self._status, words=_without_secrets(words, self._request))
        coding = self.header(b"content-encoding").lower()
        if coding in {"", "identity"} or not self._body:
            return
        if coding not in {"gzip", "x-gzip", "deflate"}:
            raise PollError("malformed", "the body has a Content-Encoding that was not asked for")
        unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS)  # gzip or zlib
        try:
            self._body = unpacker.decompress(self._body, self._max_body + 1)
        except zlib.error:
            raise PollError("malformed", "the compressed body cannot be unpacked") from None
        self._check_size()
        if unpacker.unused_data or not unpacker.eof:
            raise PollError("malformed", "the compressed body is cut off, or goes on after its end")

    def _check_size(self) -> None:
        if len(self._body) > self._max_body:
            raise PollError("too_large", f"the body has more bytes than max_body, {self._max_body}")

    def on_message_begin(self) -> None:
        """Reject a second, unrequested response."""
        if self.is_complete:
            raise PollError("malformed", "a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers after the body are ignored."""
        if not self._has_head:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Reject any status but 200, and a body that is declared too large or cannot be read."""
        status = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            self._headers.clear()  # an interim response (1xx)
            return
        self._has_head, self.keep_alive = True, self._parser.should_keep_alive()
        length = int(self.header(b"content-length") or 0)
        if status != HTTPStatus.OK:
            is_read = 0 < length <= MAX_FRAMING and not self.header(b"content-encoding")
            if not is_read or status < HTTPStatus.BAD_REQUEST:
                raise StatusError(status, _host(self._headers.get(b"location", b"")))
            self._status = status
        if length > self._max_body:
            raise PollError("too_large", f"the body has {length} bytes, max_body is {self._max_body}")
        if self.header(b"transfer-encoding").lower() not in {"", "chunked"}:
            raise PollError("malformed", "the answer has a Transfer-Encoding that was not asked for")

    def on_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        if not self._body:
            self._body = data  # the usual page comes in one piece
        elif isinstance(self._body, bytes):
            self._body = bytearray(self._body + data)  # a list of pieces could take 25 times their memory
        else:
            self._body += data
        self._check_size()

    def on_message_complete(self) -> None:
        """Mark the response as complete, except for an interim response (1xx)."""
        self.is_complete = self._has_head


@lru_cache(maxsize=1)
def _receive_buffer(loop: asyncio.AbstractEventLoop) -> memoryview:  # noqa: ARG001
    """Return the buffer for the reads of all connections of a loop; each read is consumed immediately."""
    return memoryview(bytearray(64 * 2**10))


class Connection(asyncio.BufferedProtocol):
    """Persistent connection: one request and its response at a time.

    Streams make a request cost half as much again, or twice: asyncio then allocates 256 KiB for every read.
    """

    def __init__(self, meter: list[float]) -> None:
        """Add the processor seconds of receiving responses to the element of ``meter``."""
        self._loop = asyncio.get_running_loop()
        self._buffer, self._meter = _receive_buffer(self._loop), meter
        self._response: ResponseParser | None = None
        self._ended: asyncio.Future[tuple[Exception | None, float, float]] | None = None
        """Error of the awaited response, its time and the processor time; None if none is awaited."""
        self._is_usable = True
        self._timer: asyncio.TimerHandle | None = None  # an earlier request's too: one for each is dear
        self.lost: asyncio.Future[None] = self._loop.create_future()  # done when the socket is closed

    @property
    def is_open(self) -> bool:
        """State of the connection: True if another request can be sent, as far as is known."""
        return self._is_usable and not (self.lost.done() or self._transport.is_closing())

    async def get(self, head: bytes, response: ResponseParser, deadline: float) -> HttpResponse:
        """Send a request without a body; return its response. After an exception, ``abort``.

        Raises:
            PollError: The response is unusable.
            OSError: The connection broke, or there is no whole response at the deadline of the loop's time.
        """
        self._response, self._ended, self._deadline = response, self._loop.create_future(), deadline
        self._timer = self._timer or self._loop.call_at(deadline, self._check_time)
        began, worked = self._loop.time(), thread_time()
        try:
            self._transport.write(head)
            error, ended, worked_then = await self._ended
            if error is not None:
                raise error
            self._is_usable = response.keep_alive
            busy = min(worked_then - worked, ended - began)
            return HttpResponse(response.body(), response.header(b"content-type"), ended - began, busy)
        finally:
            response.close()
            self._response = self._ended = error = None  # an error refers to this frame by its traceback

    def abort(self) -> None:
        """Close without waiting."""
        self._transport.abort()

    def _check_time(self) -> None:
        is_early = self._ended is not None and self._loop.time() < self._deadline
        self._timer = self._loop.call_at(self._deadline, self._check_time) if is_early else None
        if not is_early:
            self._finish(TimeoutError(), thread_time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer for the next read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse a piece of the response; unrequested data closes the connection."""
        if self._response is None or self._ended is None or self._ended.done():
            self.abort()
            return
        began = thread_time()
        try:
            self._response.feed(self._buffer[:nbytes])
        except PollError as error:
            self._finish(error, began)
        else:
            if self._response.is_complete:
                self._finish(None, began)
        finally:
            self._meter[0] += thread_time() - began

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete the awaited response: the end of the connection can be its end."""
        self.lost.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        if self._response is None:
            return
        error = exc
        if not self._response.received and isinstance(exc, ConnectionError | None):
            error = UnansweredError("the connection was closed without an answer (with TLS, write https://)")
        elif exc is None:
            try:
                self._response.end()
            except PollError as cut_off:
                error = cut_off
        self._finish(error, thread_time())

    def _finish(self, error: Exception | None, worked: float) -> None:
        if self._ended is not None and not self._ended.done():
            # Not set_exception: a simultaneous cancellation would leave the exception unretrieved.
            self._ended.set_result((error, self._loop.time(), worked))


class Client:
    """Client of one server: one request at a time."""

    def __init__(
        self,
        http: HttpSettings,
        *,
        timeout: float,
        max_body: int,
        resolver: Resolver = CONFIG_RESOLVER,
    ) -> None:
        """Send requests with the credentials of ``http``, each for ``timeout`` seconds at most.

        ``max_body`` is in bytes.
        """
        self._http, self._timeout, self._max_body, self._resolver = http, timeout, max_body, resolver
        self._connection: Connection | None = None
        self._origin: tuple[str, str, int] | None = None  # scheme, host and port of the connection
        self._urls: dict[str, Url] = {}  # by address, the newest last
        self._spent = [0.0]

    @property
    def spent(self) -> float:
        """Processor seconds of receiving all responses, failed ones included."""
        return self._spent[0]

    async def get(self, address: str, *, max_body: int | None = None) -> HttpResponse:
        """Return the page at an http or https URL; ``max_body`` lowers the limit for this page.

        The timeout is for the whole request, from DNS to the last byte.

        Raises:
            PollError: There is no response with status 200 within the limits.
        """
        limit = self._max_body if max_body is None else min(max_body, self._max_body)
        deadline, connection = asyncio.get_running_loop().time() + self._timeout, self._connection
        url, head = self._request(address)
        try:
            if connection is not None and connection.is_open and url[:3] == self._origin:
                # A server may close an idle connection at the moment of its next use: no failure.
                with contextlib.suppress(UnansweredError):
                    return await connection.get(head, ResponseParser(limit, head), deadline)
            async with asyncio.timeout_at(deadline):
                self._drop()
                await yield_to_event_loop()  # closes the old socket: its descriptor may be the only free one
                self._connection, self._origin = await self._connect(url), url[:3]
                return await self._connection.get(head, ResponseParser(limit, head), deadline)
        except BaseException as error:
            self._drop()
            if isinstance(error, OSError | UnicodeError):
                raise self._poll_error(error, url) from None
            raise

    async def close(self) -> None:
        """Close the connection, and wait until its socket is closed. The next request opens a new one."""
        connection = self._connection
        self._drop()
        if connection is not None:
            await connection.lost

    def _request(self, address: str) -> tuple[Url, bytes]:
        """Return an address and the head of its request, with the secrets of this moment."""
        url = self._urls.get(address)
        if url is None:
            try:
                url = Url.of(address)
            except ValueError as error:
                raise PollError("malformed", f"the URL {error}") from None
            self._urls = dict([*self._urls.items(), (address, url)][-MAX_URLS:])
        headers = {"Host": url.authority, **_HEADERS, **credentials.headers(self._http)}
        lines = [f"GET {url.target} HTTP/1.1", *[f"{name}: {value}" for name, value in headers.items()]]
        return url, "\r\n".join([*lines, "", ""]).encode("ascii")

    async def _connect(self, url: Url) -> Connection:
        tls = self._http.tls_config
        context = credentials.ssl_context(self._http) if url.scheme == "https" else None
        name = ((tls and tls.server_name) or url.host) if context else None
        failure = OSError("the name has no address")
        for host in await self._resolver.look_up(url.host, url.port):
            try:
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._spent),
                    *(host, url.port),
                    ssl=context,
                    server_hostname=name,
                )
            except OSError as error:
                failure = error
            else:
                return connection
        raise failure

    def _drop(self) -> None:
        """Close the connection without waiting for it."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def _poll_error(self, error: OSError | UnicodeError, url: Url) -> PollError:
        """Return the poll error for a network error."""
        reason = next(reason for kind, reason in _REASONS.items() if isinstance(error, kind))
        if reason == "timeout":
            return PollError(reason, f"no whole answer from {url.address} within {self._timeout:g} s")
        if reason == "tls" and re.search("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE", str(error)):
            return PollError(reason, f"no TLS at {url.address}")
        number = error.errno if isinstance(error, OSError) and reason == "refused" else None
        text = error.strerror if isinstance(error, socket.gaierror) else number and os.strerror(number)
        return PollError(reason, f"{url.address}: {text or error}")


def _without_secrets(words: str, request: bytes) -> str:
    """Remove words of the request from those of the server: credentials, and values of the query."""
    target, _, headers = request.decode("ascii").partition(" HTTP/")
    query = re.findall(r"[?&](?!model=)[^=&]*=([^&]{4,})", target)
    secrets = (*query, *map(unquote, query), *re.findall(r"[ ,]([^\s,]{4,})(?=[\r,])", headers))
    return re.sub("|".join(map(re.escape, secrets)), "…", words) if secrets else words


def _host(location: bytes) -> str:
    """Return the host of a redirect, without path and query: they may contain secrets."""
    try:
        return (urlsplit(location.decode("ascii")).hostname or "")[:253]
    except ValueError:
        return ""
