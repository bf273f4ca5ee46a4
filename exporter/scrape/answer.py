"""From the bytes of one HTTP answer to its status, content type and body; pure, nothing is awaited."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from exporter.scrape.body import Body
from exporter.scrape.errors import PollError, StatusError

FRAMING_LIMIT: Final = 64 * 1024
"""The most that an answer may have besides its body: status line, headers, chunk sizes, trailers; in bytes."""


class AnswerParser:
    """Takes in one answer as it arrives. llhttp (through httptools) knows HTTP; here is only what we accept of it.

    Every method raises ``PollError`` as soon as it is clear that the answer is of no use.
    """

    def __init__(self, max_body: int) -> None:
        self.complete = False
        self.keep_alive = False
        """Whether the server will answer another request on this connection."""
        self.content_type = ""
        self._body = Body(max_body)
        self._fed = 0
        self._head_done = False
        self._sized = False
        self._location = b""
        self._parser = HttpResponseParser(self)

    @property
    def begun(self) -> bool:
        """Whether any byte of the answer has come."""
        return self._fed > 0

    @property
    def body(self) -> bytes:
        """The whole body, decompressed; only once ``complete``."""
        return self._body.end()

    def feed(self, data: bytes) -> None:
        """Take in the next bytes."""
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise StatusError(HTTPStatus.SWITCHING_PROTOCOLS) from None
        except HttpParserError as error:
            self._broken(error)
        if self._fed - self._body.received > FRAMING_LIMIT:
            raise PollError("too_large", f"the answer has more than {FRAMING_LIMIT} bytes besides its body")

    def end(self) -> None:
        """Take note that the server has closed the connection: the end of a body whose length was not told."""
        if not self._head_done or self._sized:
            raise PollError("malformed", "the server closed the connection in the middle of its answer")
        self.complete = True

    def _broken(self, error: HttpParserError) -> None:
        """Raise what the parser's error means."""
        if isinstance(error.__context__, PollError):
            raise error.__context__ from None  # one of our own, on its way through the parser
        self.keep_alive = False
        if not self.complete:
            raise PollError("malformed", f"not an HTTP answer: {error}") from None

    # What follows is called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take note of the few headers that matter here."""
        match name.lower():
            case b"content-type":
                self.content_type = value.decode("latin-1")
            case b"content-length":
                self._sized = True
                self._body.expect(int(value))
            case b"transfer-encoding":
                self._sized = True
                if value.lower() != b"chunked":
                    raise PollError("malformed", "the answer has a Transfer-Encoding that was not asked for")
            case b"content-encoding":
                self._body.encoded(value.lower())
            case b"location":
                self._location = value

    def on_headers_complete(self) -> None:
        """Go on only with a page: nobody reads the body of any other status, so neither does this."""
        status = self._parser.get_status_code()
        if status >= HTTPStatus.OK:
            self._head_done = True
            self.keep_alive = self._parser.should_keep_alive()
            if status != HTTPStatus.OK:
                raise StatusError(status, _host(self._location))

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self._body.add(data)

    def on_message_complete(self) -> None:
        """Take note of the end, unless it was only an interim answer (1xx) that ended."""
        self.complete = self._head_done

    def on_message_begin(self) -> None:
        """Distrust a connection on which an answer follows that nobody asked for."""
        if self.complete:
            self.keep_alive = False


def _host(location: bytes) -> str:
    """Return where a redirect leads, without its path and query: they may hold what is not for a log."""
    try:
        parts = urlsplit(location.decode("ascii"))
        return f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return ""
