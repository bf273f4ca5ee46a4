"""Progress of a command on the standard error, while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TextIO

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import count
from spec_decode_exporter.reports.observation_view import ObservationView
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

    def warn(self, text: str) -> None:
        """Write a warning in place of the line."""
        self.end()
        self._write(f"spec-decode-exporter: {text}\n")

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def progress_words(view: ObservationView, seconds: float) -> str:
    """Return the time, of ``seconds`` unless they are 0, and the drafts so far in a few words."""
    end = f" of {format_duration(seconds)}" if seconds else ""
    drafts = sum(engine.longest.counts.drafts or 0 for engine in view.engines if engine.longest)
    return f"{view.seconds:.0f} s{end}  {count(drafts)} drafts  Ctrl-C ends it"
