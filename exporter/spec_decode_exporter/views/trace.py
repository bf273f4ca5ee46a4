"""Acceptance of the last minutes in pieces of time, for the lines of the page."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.window.engine_windows import Window, columns

TRACE_SECONDS: Final = 300.0
TRACE_PIECES: Final = 60
"""Pieces at most; fewer if polls are rare, so that each piece has one."""
_INTERVALS: Final = 1.4
"""Poll intervals of a piece at least, since polls are not quite regular."""


class Trace(NamedTuple):
    """Acceptance rate in pieces of the last ``seconds``, the oldest first, for a line on the page."""

    seconds: float
    ages: tuple[float, ...]
    """Seconds since the middle of each piece."""
    ratios: tuple[float | None, ...]
    """None without draft tokens."""


def acceptance_trace(window: Window, now: float) -> Trace:
    """Return the last five minutes of a window, or all of a shorter one; ``now`` is monotonic, in seconds.

    Pieces begin at multiples of their length, so that the line moves without jitter. An increment belongs to
    the piece in which it begins.
    """
    seconds = min(TRACE_SECONDS, window.length)
    interval = window.seconds / max(window.polls, 1)
    pieces = TRACE_PIECES // ceil(_INTERVALS * interval * TRACE_PIECES / seconds or 1)
    begins, ages = _pieces(seconds, now, max(pieces, 1))
    places = [*window.increments.places(begins), len(window.increments)]
    ratios = map(ratio, *columns(window.increments.between(places), "accepted_tokens", "draft_tokens"))
    return Trace(seconds, ages, tuple(ratios))


@lru_cache(maxsize=8)  # the lines of a page have the same pieces
def _pieces(seconds: float, now: float, number: int) -> tuple[list[float], tuple[float, ...]]:
    """Return begin and age of pieces of the last ``seconds``, and of the one that ends ``now``."""
    step = seconds / number
    begins = [(now // step - number + piece) * step for piece in range(number + 1)]
    return begins, tuple(now - (begin + min(begin + step, now)) / 2 for begin in begins)
