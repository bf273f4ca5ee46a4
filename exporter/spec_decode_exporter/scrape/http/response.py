"""From the bytes of one HTTP answer to its content type and body; pure, nothing is awaited."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from time import thread_time
from typing import Concatenate, Final, ParamSpec
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from spec_decode_exporter.scrape.http.response_body import Body
from spec_decode_exporter.scrape.poll_errors import PollError, StatusError

FRAMING_LIMIT: Final = 64 * 1024
"""Bytes that an answer may have besides its body: status line, headers, chunk sizes, trailers."""
MIN_PIECES: Final = 1024
PIECE_BYTES: Final = 1024
"""An answer may come in ``MIN_PIECES`` pieces, and one more for every ``PIECE_BYTES`` bytes of its body's limit.

Each piece costs processor time, however small it is; a packet of Ethernet brings 1,448 bytes.
"""

_MAX_HOST: Final = 253


Arguments = ParamSpec("Arguments")


def _kept(
    callback: Callable[Concatenate[ResponseParser, Arguments], None],
) -> Callable[Concatenate[ResponseParser, Arguments], None]:
    """Keep the PollError that a callback raises: the parser puts an error of its own in its place."""

    @wraps(callback)
    def call(self: ResponseParser, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            callback(self, *args, **kwargs)
        except PollError as error:
            self.refusal = error
            raise

    return call


class ResponseParser:
    """Takes in one answer as it arrives: llhttp (in httptools) knows HTTP, this knows what we accept of it.

    Every method raises ``PollError`` as soon as it is clear that the answer is of no use.
    """

    def __init__(self, max_body: int) -> None:
        self.begun = False
        """Whether any byte of the answer has come."""
        self.complete = False
        self.keep_alive = False
        """Whether the server will answer another request on this connection."""
        self.content_type = ""
        self.refusal: PollError | None = None
        """Why the answer is of no use, as soon as that is clear."""
        self._body = Body(max_body)
        self._headers: dict[bytes, bytes] = {}
        self.spent = 0.0
        """Processor seconds that taking it in has cost."""
        self._fed = 0
        self._pieces_left = MIN_PIECES + max_body // PIECE_BYTES
        self._head_done = False
        self._sized = False
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Take in the next bytes; they can be overwritten afterwards."""
        started = thread_time()
        try:
            self._feed(data)
        finally:
            self.spent += thread_time() - started

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
            self._broken(error)
        if self._fed - self._body.received > FRAMING_LIMIT and not self.complete:
            raise PollError("too_large", f"the answer has more than {FRAMING_LIMIT} bytes besides its body")

    def end(self) -> None:
        """Take note that the connection was closed: the end of a body whose length was not told."""
        if not self._head_done or self._sized:
            raise PollError("malformed", "the server closed the connection in the middle of its answer")
        self.complete = True

    def body(self) -> bytes:
        """Return the whole body, decompressed; only once, and only when ``complete``."""
        # It and the parser hold each other: left together, the page would wait for a collection of garbage.
        del self._parser
        return self._body.end()

    def discard(self) -> None:
        """Forget what has come of the body of an answer that failed.

        The error's traceback and the parser hold this: left with it, megabytes would wait for a collection of
        garbage.
        """
        self._body.discard()

    def _broken(self, error: HttpParserError) -> None:
        """Raise what the parser's error means for the answer."""
        if self.complete:
            self.keep_alive = False  # what follows a whole answer is not for us
        elif self.refusal is not None:
            raise self.refusal from None
        else:
            raise PollError("malformed", f"not an HTTP answer: {error}") from None

    # What follows is called by the parser.

    @_kept
    def on_message_begin(self) -> None:
        """Stop at an answer that nobody asked for."""
        if self.complete:
            raise PollError("malformed", "a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header until all are there; those that follow the body (trailers) matter to nobody."""
        self._headers[name.lower()] = value

    @_kept
    def on_headers_complete(self) -> None:
        """Go on only with a page: nobody reads the body of any other status, so neither does this."""
        status = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            self._headers.clear()  # an interim answer; the real one follows
            return
        if status != HTTPStatus.OK:
            raise StatusError(status, _host(self._headers.get(b"location", b"")))
        self._head_done = True
        self.keep_alive = self._parser.should_keep_alive()
        self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")
        self._expect_body()

    def _expect_body(self) -> None:
        """Refuse at once a body that is too large by its own account, or that cannot be unpacked."""
        length, transfer = self._headers.get(b"content-length"), self._headers.get(b"transfer-encoding")
        self._sized = bool(length or transfer)
        if length:
            self._body.expect(int(length))
        if transfer and transfer.lower() != b"chunked":
            raise PollError("malformed", "the answer has a Transfer-Encoding that was not asked for")
        if coding := self._headers.get(b"content-encoding"):
            self._body.encoded(coding.lower())

    @_kept
    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self._body.add(data)

    def on_message_complete(self) -> None:
        """Take note of the end, unless it was only an interim answer (1xx) that ended."""
        self.complete = self._head_done


def _host(location: bytes) -> str:
    """Return where a redirect leads, without its path and query: they may hold what is not for a log."""
    try:
        host = urlsplit(location.decode("ascii")).hostname or ""
    except ValueError:
        return ""
    return host[:_MAX_HOST]
