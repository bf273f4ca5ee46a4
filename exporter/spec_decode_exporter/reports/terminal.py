"""What a terminal can show: which characters, whether colours, how many columns."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from spec_decode_exporter.reports.parts import Tone

NARROWEST: Final = 40
USUAL: Final = 80

_RESET: Final = "\x1b[0m"
_BOLD: Final = "1"
_FAINT: Final = "2"
_COLOURS: Final[Mapping[Tone, str]] = {Tone.GOOD: "32", Tone.FAIR: "33", Tone.BAD: "31", Tone.NEUTRAL: "36"}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that drawings are made of."""

    parts: str
    """Of a bar's last cell, ascending; the last one fills it."""
    guess: str
    """A cell of a bar that is extrapolated."""
    line: str
    mark: str
    bullet: str
    warning: str
    ellipsis: str


UNICODE: Final = Glyphs("▏▎▍▌▋▊▉█", "░", "─", "▶", "·", "!", "…")
ASCII: Final = Glyphs("#", ":", "-", ">", "-", "!", "...")


@dataclass(frozen=True, slots=True)
class Paint:
    """How a report is drawn."""

    glyphs: Glyphs = UNICODE
    colour: bool = False
    width: int = USUAL
    """Columns, at least ``NARROWEST``."""

    def bold(self, text: str) -> str:
        """Return a text that stands out."""
        return self._set(_BOLD, text)

    def faint(self, text: str) -> str:
        """Return a text that stands back."""
        return self._set(_FAINT, text)

    def toned(self, text: str, tone: Tone) -> str:
        """Return a text in the colour of its tone."""
        return self._set(_COLOURS[tone], text)

    def badge(self, text: str, tone: Tone) -> str:
        """Return a word as a badge; without colours it stands between brackets."""
        return f"\x1b[1;7;{_COLOURS[tone]}m {text} {_RESET}" if self.colour else f"[{text}]"

    def bar(self, share: float, width: int, *, guessed: bool = False) -> str:
        """Return a bar of ``width`` columns at most; of any share above 0 something can be seen."""
        share = min(max(share, 0.0), 1.0)
        if guessed:
            return self.glyphs.guess * max(round(share * width), int(share > 0))
        parts = self.glyphs.parts
        eighths = max(round(share * width * len(parts)), int(share > 0))
        full, rest = divmod(eighths, len(parts))
        return parts[-1] * full + (parts[rest - 1] if rest else "")

    def _set(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}{_RESET}" if self.colour and text else text


def paint_for(stream: TextIO, environ: Mapping[str, str]) -> Paint:
    """Return how to draw on a stream: with colours on a terminal only, and not where NO_COLOR says so.

    ``NO_COLOR`` is as of https://no-color.org: set to anything that is not empty.
    """
    colour = is_terminal(stream) and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((USUAL, 0)).columns if is_terminal(stream) else _given(environ)
    return Paint(_glyphs(stream.encoding), colour, max(width, NARROWEST))


def is_terminal(stream: TextIO) -> bool:
    """Return whether somebody looks at a stream."""
    return not stream.closed and stream.isatty()


def _given(environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() else USUAL


def _glyphs(encoding: str | None) -> Glyphs:
    """Return what can be written in an encoding."""
    drawn = f"{UNICODE.parts}{UNICODE.guess}{UNICODE.line}{UNICODE.mark}{UNICODE.bullet}{UNICODE.ellipsis}"
    try:
        drawn.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
