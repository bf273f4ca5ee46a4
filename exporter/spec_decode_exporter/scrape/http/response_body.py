"""Response body, bounded before and after decompression, whatever size the server declares."""

from __future__ import annotations

import zlib

from spec_decode_exporter.scrape.errors import PollError

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib distinguishes the two by their first bytes
_CODINGS = {b"gzip", b"x-gzip", b"deflate"}


class Body:
    """Collects a body; raises ``PollError`` if it exceeds ``limit`` bytes or cannot be decompressed.

    The limit also holds for the compressed bytes: empty blocks decompress to nothing.
    """

    def __init__(self, limit: int) -> None:
        self.received = 0
        """Bytes received from the server, before decompression."""
        self._limit = limit
        self._content: bytes | bytearray = b""
        self._unpacker: zlib._Decompress | None = None

    def expect(self, size: int) -> None:
        """Reject a body whose ``Content-Length`` exceeds the limit."""
        if size > self._limit:
            raise PollError("too_large", f"the body has {size} bytes, max_body is {self._limit}")

    def encoded(self, coding: bytes) -> None:
        """Set the ``Content-Encoding``. The exporter requests none, but a proxy may compress."""
        if coding in _CODINGS:
            self._unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
        elif coding != b"identity":
            raise PollError("malformed", "the body has a Content-Encoding that was not asked for")

    def add(self, data: bytes) -> None:
        """Add the next bytes as received."""
        self.received += len(data)
        if self.received > self._limit:
            raise self._too_large()
        self._append(data if self._unpacker is None else self._unpack(self._unpacker, data))

    def end(self) -> bytes:
        """Return the whole body after the last byte."""
        if self._unpacker is not None and self.received and not self._unpacker.eof:
            raise PollError("malformed", "the compressed body was cut off")
        return bytes(self._content)

    def discard(self) -> None:
        """Release the bytes received so far."""
        self._content = b""
        self._unpacker = None

    def _unpack(self, unpacker: zlib._Decompress, data: bytes) -> bytes:
        # One byte beyond the limit is enough to detect an excess.
        try:
            unpacked = unpacker.decompress(data, self._limit - len(self._content) + 1)
        except zlib.error:
            raise PollError("malformed", "the compressed body cannot be unpacked") from None
        if unpacker.unused_data:
            raise PollError("malformed", "the compressed body goes on after its end")
        return unpacked

    def _append(self, data: bytes) -> None:
        if len(self._content) + len(data) > self._limit:
            raise self._too_large()
        if self._content:
            # Not a list of pieces: objects for two bytes each take 25 times their memory.
            self._content = bytearray(self._content) if isinstance(self._content, bytes) else self._content
            self._content += data
        else:
            self._content = bytes(data)  # the usual page comes in one piece

    def _too_large(self) -> PollError:
        return PollError("too_large", f"the body has more bytes than max_body, {self._limit}")
