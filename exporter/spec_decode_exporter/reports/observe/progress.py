"""Output of an observation: progress while it runs, and its reports."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TextIO

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.escape import clipped
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.observe.observe_report import json_report, report
from spec_decode_exporter.reports.parts import Tone
from spec_decode_exporter.reports.terminal import TerminalStyle, is_terminal, terminal_style
from spec_decode_exporter.reports.terminal_report import text_report
from spec_decode_exporter.views.fleet_view import ObservationView

FORMATS: Final[Mapping[str, Callable[[ObservationView, TerminalStyle], str]]] = {
    "text": lambda view, style: text_report(report(view), style),
    "json": lambda view, _: json_report(view),
    "markdown": lambda view, style: markdown_report(report(view), style),
}
"""Writers by the value of ``--format``."""

_LIVE_INTERVAL: Final = 5.0
_PROGRESS_INTERVAL: Final = 1.0
_PROGRESS_BAR: Final = 12
"""Columns."""
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
    """Stream of the progress, if it is a terminal."""
    environ: Mapping[str, str]
    """Environment variables: some describe the terminal."""


class FinalReport:
    """Shows no progress, and writes the report at the end."""

    first: float = math.inf
    """Seconds until ``show`` is called first."""
    every: float = math.inf
    """Seconds between two calls of ``show``."""

    def __init__(self, form: str, streams: Streams) -> None:
        """Write reports in ``form``, a key of ``FORMATS``."""
        self._form = form
        self._streams = streams

    def show(self, view: ObservationView) -> None:
        """Show the result up to now.

        Raises:
            BrokenPipeError: The reader closed the stream.
            NotWrittenError: The stream cannot be written.
        """

    def end(self) -> None:
        """Restore the terminal."""

    def report(self, view: ObservationView) -> None:
        """Write the report at the end.

        Raises:
            BrokenPipeError: The reader closed the stream.
            NotWrittenError: The stream cannot be written.
        """
        write_report(self._streams.out, self._written(view))

    def _written(self, view: ObservationView) -> str:
        return FORMATS[self._form](view, terminal_style(self._streams.out, self._streams.environ))


class RepeatedReports(FinalReport):
    """Writes one report after the other; each JSON report is one line."""

    def __init__(self, form: str, streams: Streams, every: float) -> None:
        """Write a report each ``every`` seconds."""
        super().__init__(form, streams)
        self.first = self.every = every

    def show(self, view: ObservationView) -> None:
        """Write the report up to now."""
        after = "" if self._form == "json" else "\n"
        write_report(self._streams.out, self._written(view) + after)

    def _written(self, view: ObservationView) -> str:
        return json_report(view, indented=False) if self._form == "json" else super()._written(view)


class LiveReport(FinalReport):
    """Draws the report repeatedly on the terminal's alternate screen, which keeps the scrollback."""

    first = 1.0

    def __init__(self, streams: Streams, every: float) -> None:
        """Draw the report each ``every`` seconds."""
        super().__init__("text", streams)
        self.every = every
        self._begun = False

    def show(self, view: ObservationView) -> None:
        """Draw the first lines of the report, as many as the terminal has rows."""
        rows = shutil.get_terminal_size().lines
        lines = self._written(view).splitlines()
        more = len(lines) - (rows - 1)
        shown = (
            [*islice(lines, rows - 2), f"({more + 1} more lines; Ctrl-C shows all)"] if more > 0 else lines
        )
        begin = "" if self._begun else _ALTERNATE_SCREEN
        self._begun = True
        write_report(
            self._streams.out, begin + _HOME + "".join(f"{line}\x1b[K\n" for line in shown) + _ERASE_REST
        )

    def end(self) -> None:
        """Return to the main screen."""
        if self._begun:
            write_report(self._streams.out, _MAIN_SCREEN)


class ProgressLine(FinalReport):
    """Shows the progress in one line on the standard error."""

    first = 0.0
    every = _PROGRESS_INTERVAL

    def __init__(self, form: str, streams: Streams, seconds: float) -> None:
        """Show the progress of an observation of ``seconds``."""
        super().__init__(form, streams)
        self._seconds = seconds

    def show(self, view: ObservationView) -> None:
        """Replace the line."""
        style = terminal_style(self._streams.err, self._streams.environ)
        share = view.seconds / self._seconds
        bar = style.bar(share, _PROGRESS_BAR).ljust(_PROGRESS_BAR)
        words = f" {view.seconds:.0f} of {format_duration(self._seconds)}  {_gist(view)}  Ctrl-C ends it"
        room = style.width - _PROGRESS_BAR - 1
        line = f"{style.toned(bar, Tone.NEUTRAL)}{clipped(words, room, style.glyphs.ellipsis)}"
        write_report(self._streams.err, ERASE_LINE + line)

    def end(self) -> None:
        """Erase the line."""
        write_report(self._streams.err, ERASE_LINE)


def _gist(view: ObservationView) -> str:
    """Return the drafts, the acceptance rate and the missing targets in a few words."""
    counts = [window.counts for engine in view.engines for window in engine.windows[-1:]]
    drafts, drafted, accepted = (
        sum(getattr(each, name) or 0 for each in counts)
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    missing = sum(not target.engines for target in view.targets)
    words = [f"{numbers.count(drafts)} drafts"]
    words += [f"acceptance {accepted / drafted:.3f}"] if drafted else []
    words += [f"{missing} of {len(view.targets)} unseen"] if missing else []
    return ", ".join(words)


def output_for(form: str, seconds: float, every: float | None, streams: Streams) -> FinalReport:
    """Return the output of an observation.

    Args:
        form: A key of ``FORMATS``.
        seconds: Length of the observation; 0 if it has no end.
        every: Seconds between reports; None for a single report.
        streams: Output streams.
    """
    able = streams.environ.get("TERM") != "dumb"
    if every is not None or not seconds:
        every = every or _LIVE_INTERVAL
        live = able and form == "text" and is_terminal(streams.out)
        return LiveReport(streams, every) if live else RepeatedReports(form, streams, every)
    if able and is_terminal(streams.err):
        return ProgressLine(form, streams, seconds)
    return FinalReport(form, streams)


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
