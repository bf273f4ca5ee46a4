"""Parse the bytes of one HTTP response into content type and body, without I/O."""

from __future__ import annotations

from http import HTTPStatus
from time import thread_time
from typing import Final, NoReturn
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.scrape.http.response_body import Body

FRAMING_LIMIT: Final = 64 * 1024
"""Maximum bytes of a response besides its body: status line, headers, chunk sizes, trailers."""
MIN_PIECES: Final = 1024
PIECE_BYTES: Final = 1024
"""Maximum number of pieces: ``MIN_PIECES``, and one for every ``PIECE_BYTES`` bytes of the body's limit.

Each piece costs processor time, whatever its size; an Ethernet packet carries 1,448 bytes.
"""

_MAX_HOST: Final = 253
_PROBLEM: Final = b"application/problem+json"
_MAX_PROBLEM: Final = 16 * 1024
"""Maximum bytes of a problem."""


class ResponseParser:
    """Incremental parser of the responses on one connection, one after the other.

    llhttp (in httptools) parses HTTP, this class checks the limits. Every method raises ``PollError`` as soon
    as the response is known to be unusable; then the connection is unusable too.
    """

    def __init__(self, max_body: int = 0, *, reads_problems: bool = False) -> None:
        """Expect the first response; ``max_body`` is the maximum bytes of its body.

        With ``reads_problems``, a problem (RFC 9457) is read too: see ``failure``.
        """
        self._parser = HttpResponseParser(self)
        self._reads_problems = reads_problems
        self.begin(max_body)

    def begin(self, max_body: int) -> None:
        """Expect the next response; ``max_body`` is the maximum bytes of its body."""
        self.begun = False
        """At least one byte of the response has arrived."""
        self.complete = False
        self.keep_alive = False
        """The server accepts another request on this connection."""
        self.content_type = ""
        self.rejection: PollError | None = None
        """Error that makes the response unusable."""
        self.failure: StatusError | None = None
        """Status of a complete response that is a problem; its body is the problem."""
        self._body = Body(max_body)
        self._headers: dict[bytes, bytes] = {}
        self.spent = 0.0
        """Processor seconds of parsing this response."""
        self.fed_at = 0.0
        """Processor time of the thread (seconds) at which the last bytes were parsed."""
        self._fed = 0
        self._pieces_left = MIN_PIECES + max_body // PIECE_BYTES
        self._head_done = False
        self._sized = False

    def feed(self, data: bytes | memoryview) -> None:
        """Parse the next bytes; the caller may overwrite them afterwards."""
        started = thread_time()
        try:
            self._feed(data)
        finally:
            self.fed_at = thread_time()
            self.spent += self.fed_at - started

    def _feed(self, data: bytes | memoryview) -> None:
        self.begun = True
        self._fed += len(data)
        self._pieces_left -= 1
        if self._pieces_left < 0:
            raise PollError("too_large", "the answer comes in too many small pieces")
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise StatusError(HTTPStatus.SWITCHING_PROTOCOLS) from None
        except HttpParserError as error:
            self._handle_parser_error(error)
        if self._fed - self._body.received > FRAMING_LIMIT and not self.complete:
            raise PollError("too_large", f"the answer has more than {FRAMING_LIMIT} bytes besides its body")

    def end(self) -> None:
        """Handle the end of the connection: it also ends a body without a declared length."""
        if not self._head_done or self._sized:
            raise PollError("malformed", "the server closed the connection in the middle of its answer")
        self.complete = True

    def body(self) -> bytes:
        """Return the whole body, decompressed; only once, and only when ``complete``."""
        try:
            return self._body.end()
        finally:
            self._body.discard()

    def discard(self) -> None:
        """Release the body of a failed response immediately.

        The error's traceback and the parser refer to it, so megabytes would stay until garbage collection.
        """
        self._body.discard()

    def close(self) -> None:
        """Release llhttp's parser after the last response: the two refer to each other."""
        del self._parser

    def _handle_parser_error(self, error: HttpParserError) -> None:
        """Raise the poll error for a parser error; ignore data after a complete response."""
        if self.complete:
            self.keep_alive = False
        elif self.rejection is not None:
            raise self.rejection from None
        else:
            raise PollError("malformed", f"not an HTTP answer: {error}") from None

    # Callbacks of llhttp.

    def on_message_begin(self) -> None:
        """Reject a second, unrequested response."""
        if self.complete:
            self._reject(PollError("malformed", "a second answer"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header until the last one; trailers after the body are ignored."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Reject any status but 200, without reading the body unless it is a problem."""
        status = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            self._headers.clear()  # an interim response (1xx)
            return
        if status != HTTPStatus.OK:
            self.failure = StatusError(status, _host(self._headers.get(b"location", b"")))
            kind = self._headers.get(b"content-type", b"")
            if not (self._reads_problems and kind.startswith(_PROBLEM)):
                self._reject(self.failure)
            self._body = Body(_MAX_PROBLEM)
        self._head_done = True
        self.keep_alive = self._parser.should_keep_alive()
        self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")
        try:
            self._expect_body()
        except PollError as error:
            self._reject(error)

    def _expect_body(self) -> None:
        """Reject a body whose declared length or encoding is unusable."""
        length, transfer = self._headers.get(b"content-length"), self._headers.get(b"transfer-encoding")
        self._sized = bool(length or transfer)
        if length:
            self._body.expect(int(length))
        if transfer and transfer.lower() != b"chunked":
            raise PollError("malformed", "the answer has a Transfer-Encoding that was not asked for")
        if coding := self._headers.get(b"content-encoding"):
            self._body.encoded(coding.lower())

    def on_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        try:
            self._body.add(data)
        except PollError as error:
            self._reject(error)

    def on_message_complete(self) -> None:
        """Mark the response as complete, except for an interim response (1xx)."""
        self.complete = self._head_done

    def _reject(self, error: PollError) -> NoReturn:
        """Raise the error of a callback, and keep it: llhttp replaces it by an error of its own."""
        self.rejection = error
        raise error


def _host(location: bytes) -> str:
    """Return the host of a redirect, without path and query: they may contain secrets."""
    try:
        host = urlsplit(location.decode("ascii")).hostname or ""
    except ValueError:
        return ""
    return host[:_MAX_HOST]
