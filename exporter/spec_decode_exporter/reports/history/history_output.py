"""Output of a history: its formats, and the progress of reading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.recurring import TokenBucket
from spec_decode_exporter.history.history_result import HistoryResult
from spec_decode_exporter.reports.escape import clipped
from spec_decode_exporter.reports.history.history_html import history_html
from spec_decode_exporter.reports.history.history_json import history_json
from spec_decode_exporter.reports.history.history_report import history_report
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.observe.progress import ERASE_LINE, Streams, write_report
from spec_decode_exporter.reports.parts import Tone
from spec_decode_exporter.reports.terminal import TerminalStyle, is_terminal, terminal_style
from spec_decode_exporter.reports.terminal_report import text_report

HISTORY_FORMATS: Final[Mapping[str, Callable[[HistoryResult, TerminalStyle], str]]] = {
    "text": lambda result, style: text_report(history_report(result), style),
    "json": lambda result, _: history_json(result),
    "markdown": lambda result, style: markdown_report(history_report(result), style),
    "html": lambda result, _: history_html(result),
}
"""Writers by the value of ``--format``."""

_BAR: Final = 24
"""Columns."""
_EVERY: Final = 0.2
"""Seconds between two drawings."""


class HistoryProgress:
    """Bar with the time left, on a terminal only."""

    def __init__(self, streams: Streams, clock: Clock) -> None:
        """Begin now."""
        self._streams = streams
        self._clock = clock
        self._begin = clock.monotonic()
        self._drawings = TokenBucket(1, _EVERY, clock.monotonic)
        self._shows = streams.environ.get("TERM") != "dumb" and is_terminal(streams.err)

    def show(self, share: float) -> None:
        """Draw the share of the work that is done, 0 to 1."""
        now = self._clock.monotonic()
        if not self._shows or not self._drawings.take():
            return
        style = terminal_style(self._streams.err, self._streams.environ)
        left = (now - self._begin) * (1 - share) / share if share else None
        words = f" {100 * share:.0f} %"
        words += f", {left:.0f} s left" if left is not None else ""
        words += "  Ctrl-C ends it with what was read"
        bar = style.toned(style.bar(share, _BAR).ljust(_BAR), Tone.NEUTRAL)
        text = clipped(words, style.width - _BAR - 1, style.glyphs.ellipsis)
        write_report(self._streams.err, f"{ERASE_LINE}{bar}{text}")

    def end(self) -> None:
        """Erase the bar."""
        if self._shows:
            write_report(self._streams.err, ERASE_LINE)
