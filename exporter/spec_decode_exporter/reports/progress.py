"""Output of a command: progress while it runs, and the report at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import count
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.reports.text import bar, is_terminal, text_style

ERASE_LINE: Final = "\r\x1b[K"


class NotWrittenError(ExporterError):
    """A report cannot be written, as to a full disk."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Output streams."""

    out: TextIO
    """Stream of the reports."""
    err: TextIO
    """Stream of the progress and the warnings."""
    environ: Mapping[str, str]
    """Environment variables: some describe the terminal."""


class ProgressBar:
    """Bar and a few words on one line of the standard error, on a terminal only."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.is_shown = is_terminal(streams.err) and streams.environ.get("TERM") != "dumb"

    def show(self, share: float, words: str) -> None:
        """Replace the line; ``share`` of the work is done, 0 to 1."""
        if self.is_shown:
            style = text_style(self._streams.err, self._streams.environ)
            line = f"{bar(share):20} {words}"[: style.width]
            write_report(self._streams.err, f"{ERASE_LINE}{line}")

    def end(self) -> None:
        """Erase the line."""
        if self.is_shown:
            write_report(self._streams.err, ERASE_LINE)

    def warn(self, text: str) -> None:
        """Write a warning in place of the line."""
        self.end()
        write_report(self._streams.err, f"spec-decode-exporter: {text}\n")


def progress_words(view: ObservationView, seconds: float) -> str:
    """Return the time, of ``seconds`` unless they are 0, and the drafts so far in a few words."""
    end = f" of {format_duration(seconds)}" if seconds else ""
    drafts = sum(engine.longest.counts.drafts or 0 for engine in view.engines if engine.longest)
    return f"{view.seconds:.0f} s{end}  {count(drafts)} drafts  Ctrl-C ends it"


def write_report(stream: TextIO, text: str) -> None:
    """Write a text.

    Raises:
        BrokenPipeError: The reader closed the stream.
        NotWrittenError: The stream cannot be written.
    """
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWrittenError(f"the report cannot be written: {error.strerror or error}") from error
