"""Progress of a command on the standard error, while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TextIO

from spec_decode_exporter.reports.text import bar, text_style

ERASE_LINE: Final = "\r\x1b[K"


class ProgressBar:
    """Bar and a few words on one line of a stream, on a terminal only. A stream that is gone is ignored."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str]) -> None:
        """Draw on a stream; some environment variables describe the terminal."""
        self._stream, self._width = stream, text_style(stream, environ).width
        self.is_shown = self._width is not None and environ.get("TERM") != "dumb"

    def show(self, share: float, words: str) -> None:
        """Replace the line; ``share`` of the work is done, 0 to 1."""
        if self.is_shown:
            self._write(ERASE_LINE + f"{bar(share):20} {words}"[: self._width])

    def end(self) -> None:
        """Erase the line."""
        if self.is_shown:
            self._write(ERASE_LINE)

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
