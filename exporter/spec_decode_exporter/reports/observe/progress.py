"""How an observation is shown to whoever waits for it, and how its report comes to them at the end."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TextIO

from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.reports import numbers
from spec_decode_exporter.reports.escape import clipped
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.observe.observe_json import json_report
from spec_decode_exporter.reports.observe.observe_report import report
from spec_decode_exporter.reports.parts import Tone
from spec_decode_exporter.reports.terminal import Paint, is_terminal, paint_for
from spec_decode_exporter.reports.terminal_report import text_report
from spec_decode_exporter.views.models import ObservationView

FORMATS: Final[Mapping[str, Callable[[ObservationView, Paint], str]]] = {
    "text": lambda view, paint: text_report(report(view), paint),
    "json": lambda view, _: json_report(view),
    "markdown": lambda view, paint: markdown_report(report(view), paint),
}
"""How a report can be written."""

_LIVE_EVERY: Final = 5.0
_PROGRESS_EVERY: Final = 1.0
_PROGRESS_BAR: Final = 12
"""Columns."""
_ERASE_LINE: Final = "\r\x1b[K"
_OTHER_SCREEN: Final = "\x1b[?1049h\x1b[?25l"
_OWN_SCREEN: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_ERASE_REST: Final = "\x1b[J"


class NotWrittenError(Exception):
    """What a report goes to does not take it, such as a disk that is full."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Where things are written to."""

    out: TextIO
    """What the reports go to."""
    err: TextIO
    """What progress is shown on, if it is a terminal."""
    environ: Mapping[str, str]
    """The environment's variables, which say something of the terminal."""


class Meanwhile:
    """Shows nothing while it waits, and the report at the end."""

    first: float = math.inf
    """Seconds until something is shown."""
    every: float = math.inf
    """Seconds from one thing that is shown to the next."""

    def __init__(self, form: str, streams: Streams) -> None:
        """Write reports in a form, one of ``FORMATS``."""
        self._form = form
        self._streams = streams

    def show(self, view: ObservationView) -> None:
        """Show what was seen up to now.

        Raises:
            BrokenPipeError: Nobody reads it.
            NotWrittenError: It cannot be written.
        """

    def end(self) -> None:
        """Leave the terminal as it was."""

    def report(self, view: ObservationView) -> None:
        """Write the report at the end.

        Raises:
            BrokenPipeError: Nobody reads it.
            NotWrittenError: It cannot be written.
        """
        _write(self._streams.out, self._written(view))

    def _written(self, view: ObservationView) -> str:
        return FORMATS[self._form](view, paint_for(self._streams.out, self._streams.environ))


class Repeated(Meanwhile):
    """Writes one report after the other; as JSON each is a line."""

    def __init__(self, form: str, streams: Streams, every: float) -> None:
        """Write one every so many seconds."""
        super().__init__(form, streams)
        self.first = self.every = every

    def show(self, view: ObservationView) -> None:
        """Write the report of what was seen up to now."""
        after = "" if self._form == "json" else "\n"
        _write(self._streams.out, self._written(view) + after)

    def _written(self, view: ObservationView) -> str:
        return json_report(view, indented=False) if self._form == "json" else super()._written(view)


class Live(Meanwhile):
    """Draws the report anew and anew on a screen of its own, so that nothing that was there is lost."""

    first = 1.0

    def __init__(self, streams: Streams, every: float) -> None:
        """Draw it every so many seconds."""
        super().__init__("text", streams)
        self.every = every
        self._begun = False

    def show(self, view: ObservationView) -> None:
        """Draw as much of the report as there is room for."""
        rows = shutil.get_terminal_size().lines
        lines = self._written(view).splitlines()
        more = len(lines) - (rows - 1)
        shown = (
            [*islice(lines, rows - 2), f"({more + 1} more lines; Ctrl-C shows all)"] if more > 0 else lines
        )
        begin = "" if self._begun else _OTHER_SCREEN
        self._begun = True
        _write(self._streams.out, begin + _HOME + "".join(f"{line}\x1b[K\n" for line in shown) + _ERASE_REST)

    def end(self) -> None:
        """Go back to the screen that was there before."""
        if self._begun:
            _write(self._streams.out, _OWN_SCREEN)


class Progress(Meanwhile):
    """Says in one line beside the report how far it is."""

    first = 0.0
    every = _PROGRESS_EVERY

    def __init__(self, form: str, streams: Streams, seconds: float) -> None:
        """Say it to the standard error; ``seconds`` is how long the observation takes."""
        super().__init__(form, streams)
        self._seconds = seconds

    def show(self, view: ObservationView) -> None:
        """Write the line anew."""
        paint = paint_for(self._streams.err, self._streams.environ)
        share = view.seconds / self._seconds
        bar = paint.bar(share, _PROGRESS_BAR).ljust(_PROGRESS_BAR)
        words = f" {view.seconds:.0f} of {format_duration(self._seconds)}  {_seen(view)}  Ctrl-C ends it"
        room = paint.width - _PROGRESS_BAR - 1
        line = f"{paint.toned(bar, Tone.NEUTRAL)}{clipped(words, room, paint.glyphs.ellipsis)}"
        _write(self._streams.err, _ERASE_LINE + line)

    def end(self) -> None:
        """Erase the line."""
        _write(self._streams.err, _ERASE_LINE)


def _seen(view: ObservationView) -> str:
    """Return in a few words what was seen up to now."""
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


def meanwhile_of(form: str, seconds: float, every: float | None, streams: Streams) -> Meanwhile:
    """Return how to show an observation.

    Args:
        form: One of ``FORMATS``.
        seconds: How long it takes; 0 where it has no end.
        every: Seconds between reports; None where nobody asked for several.
        streams: Where to write to.
    """
    able = streams.environ.get("TERM") != "dumb"
    if every is not None or not seconds:
        every = every or _LIVE_EVERY
        live = able and form == "text" and is_terminal(streams.out)
        return Live(streams, every) if live else Repeated(form, streams, every)
    if able and is_terminal(streams.err):
        return Progress(form, streams, seconds)
    return Meanwhile(form, streams)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWrittenError(f"the report cannot be written: {error.strerror or error}") from error
