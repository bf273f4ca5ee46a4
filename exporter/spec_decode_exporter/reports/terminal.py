"""Capabilities of a terminal: characters, colors and columns."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from spec_decode_exporter.reports.parts import Tone

MIN_WIDTH: Final = 40
DEFAULT_WIDTH: Final = 80

_RESET: Final = "\x1b[0m"
_BOLD: Final = "1"
_FAINT: Final = "2"
_COLORS: Final[Mapping[Tone, str]] = {Tone.GOOD: "32", Tone.FAIR: "33", Tone.BAD: "31", Tone.NEUTRAL: "36"}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters of drawings."""

    parts: str
    """Characters of a bar's last cell, ascending; the last one fills the cell."""
    guess: str
    """Cell of an extrapolated bar."""
    line: str
    mark: str
    bullet: str
    warning: str
    ellipsis: str


UNICODE: Final = Glyphs("▏▎▍▌▋▊▉█", "░", "─", "▶", "·", "!", "…")
ASCII: Final = Glyphs("#", ":", "-", ">", "-", "!", "...")


@dataclass(frozen=True, slots=True)
class TerminalStyle:
    """Style of a report."""

    glyphs: Glyphs = UNICODE
    color: bool = False
    width: int = DEFAULT_WIDTH
    """Columns, at least ``MIN_WIDTH``."""

    def bold(self, text: str) -> str:
        """Return an emphasized text."""
        return self._set(_BOLD, text)

    def faint(self, text: str) -> str:
        """Return a dimmed text."""
        return self._set(_FAINT, text)

    def toned(self, text: str, tone: Tone) -> str:
        """Return a text in the color of its tone."""
        return self._set(_COLORS[tone], text)

    def badge(self, text: str, tone: Tone) -> str:
        """Return a word as a badge; in brackets without colors."""
        return f"\x1b[1;7;{_COLORS[tone]}m {text} {_RESET}" if self.color else f"[{text}]"

    def bar(self, share: float, width: int, *, guessed: bool = False) -> str:
        """Return a bar of at most ``width`` columns; a share above 0 is always visible."""
        share = min(max(share, 0.0), 1.0)
        if guessed:
            return self.glyphs.guess * max(round(share * width), int(share > 0))
        parts = self.glyphs.parts
        eighths = max(round(share * width * len(parts)), int(share > 0))
        full, rest = divmod(eighths, len(parts))
        return parts[-1] * full + (parts[rest - 1] if rest else "")

    def _set(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}{_RESET}" if self.color and text else text


def terminal_style(stream: TextIO, environ: Mapping[str, str]) -> TerminalStyle:
    """Return the style for a stream: colors on a terminal only, unless ``NO_COLOR`` is set.

    ``NO_COLOR`` (https://no-color.org) counts if it is not empty.
    """
    color = is_terminal(stream) and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns if is_terminal(stream) else _columns(environ)
    return TerminalStyle(_glyphs(stream.encoding), color, max(width, MIN_WIDTH))


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is an open terminal."""
    return not stream.closed and stream.isatty()


def _columns(environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() else DEFAULT_WIDTH


def _glyphs(encoding: str | None) -> Glyphs:
    """Return the glyphs that an encoding can write."""
    drawn = f"{UNICODE.parts}{UNICODE.guess}{UNICODE.line}{UNICODE.mark}{UNICODE.bullet}{UNICODE.ellipsis}"
    try:
        drawn.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
