"""Output of an observation: progress while it runs, and its reports."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import count
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.observation_report import json_report, report
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.reports.text import bar, is_terminal, text_style

FORMATS: Final = ("text", "json")
"""Values of ``--format`` of a report."""

_LIVE_INTERVAL: Final = 5.0
ERASE_LINE: Final = "\r\x1b[K"
_ALTERNATE_SCREEN: Final = "\x1b[?1049h\x1b[?25l"
_MAIN_SCREEN: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_ERASE_REST: Final = "\x1b[J"


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

    def can_redraw(self, stream: TextIO) -> bool:
        """Return whether a stream is a terminal with control sequences."""
        return is_terminal(stream) and self.environ.get("TERM") != "dumb"


class ProgressBar:
    """Bar and a few words on one line of the standard error, on a terminal only."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.is_shown = streams.can_redraw(streams.err)

    def show(self, share: float, words: str) -> None:
        """Replace the line; ``share`` of the work is done, 0 to 1."""
        if self.is_shown:
            style = text_style(self._streams.err, self._streams.environ)
            line = f"{bar(share, style):20} {words}"[: style.width]
            write_report(self._streams.err, f"{ERASE_LINE}{line}")

    def end(self) -> None:
        """Erase the line."""
        if self.is_shown:
            write_report(self._streams.err, ERASE_LINE)


class ObservationOutput:
    """Writes an observation in one of four ways, by its length, its format and the streams.

    One report at the end, with a progress bar on a terminal; or, with ``every`` or without an end, a report
    again and again: on a terminal as text on its alternate screen, which keeps the scrollback, elsewhere one
    after the other, JSON as one line.
    """

    def __init__(self, form: str, seconds: float, every: float | None, streams: Streams) -> None:
        """Choose.

        Args:
            form: One of ``FORMATS``.
            seconds: Length of the observation; 0 if it has no end.
            every: Seconds between reports; None for a single report.
            streams: Output streams.
        """
        repeats = every is not None or not seconds
        self._form, self._seconds, self._streams = form, seconds, streams
        self._bar = None if repeats else ProgressBar(streams)
        self._is_live = repeats and form == "text" and streams.can_redraw(streams.out)
        self._is_repeated = repeats and not self._is_live
        self._is_drawn = False
        interval = (
            every or _LIVE_INTERVAL if repeats else 1.0 if self._bar and self._bar.is_shown else math.inf
        )
        self.every = interval
        """Seconds between two calls of ``show``; infinite if it shows nothing."""
        self.first = min(interval, 1.0) if self._is_live or not repeats else interval
        """Seconds until the first one."""

    def show(self, view: ObservationView) -> None:
        """Show the result up to now.

        Raises:
            BrokenPipeError: The reader closed the stream.
            NotWrittenError: The stream cannot be written.
        """
        if self._is_live:
            self._draw(self._written(view, ended=False).splitlines())
        elif self._is_repeated:
            text = self._written(view, ended=False)
            write_report(self._streams.out, text + ("" if self._form == "json" else "\n"))
        elif self._bar is not None:
            words = f"{view.seconds:.0f} of {format_duration(self._seconds)}  {_gist(view)}  Ctrl-C ends it"
            self._bar.show(view.seconds / self._seconds, words)

    def warn(self, text: str) -> None:
        """Write a line to the standard error; a live report shows the reason itself."""
        if not self._is_live:
            self.end()
            write_report(self._streams.err, f"spec-decode-exporter: {text}\n")

    def end(self) -> None:
        """Restore the terminal."""
        if self._is_drawn:
            write_report(self._streams.out, _MAIN_SCREEN)
        if self._bar is not None:
            self._bar.end()

    def report(self, view: ObservationView) -> None:
        """Write the report at the end; raise like ``show``."""
        write_report(self._streams.out, self._written(view))

    def _written(self, view: ObservationView, *, ended: bool = True) -> str:
        if self._form == "json":
            return json_report(view, indented=not self._is_repeated)
        return report(view, text_style(self._streams.out, self._streams.environ), ended=ended)

    def _draw(self, lines: list[str]) -> None:
        """Draw the first lines, as many as the terminal has rows."""
        rows = shutil.get_terminal_size().lines
        if len(lines) >= rows:
            lines[rows - 2 :] = [f"({len(lines) - rows + 2} more lines; Ctrl-C shows all)"]
        begin = "" if self._is_drawn else _ALTERNATE_SCREEN
        self._is_drawn = True
        drawn = "".join(f"{line}\x1b[K\n" for line in lines)
        write_report(self._streams.out, f"{begin}{_HOME}{drawn}{_ERASE_REST}")


def _gist(view: ObservationView) -> str:
    """Return the drafts, the acceptance rate and the missing targets in a few words."""
    counts = [engine.longest.counts for engine in view.engines if engine.longest]
    drafts, drafted, accepted = (
        sum(getattr(each, name) or 0 for each in counts)
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    missing = sum(not target.engines for target in view.targets)
    words = [f"{count(drafts)} drafts"]
    words += [f"acceptance {accepted / drafted:.3f}"] if drafted else []
    words += [f"{missing} of {len(view.targets)} unseen"] if missing else []
    return ", ".join(words)


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
