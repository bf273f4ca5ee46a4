"""Acceptance trace: the acceptance rate over the last minutes, for the line on the page."""

from __future__ import annotations

from typing import Final, NamedTuple

from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window

TRACE_SECONDS: Final = 300.0
TRACE_PIECES: Final = 60


class Piece(NamedTuple):
    """Sum of some increments."""

    age: float
    """Seconds since its middle."""
    acceptance_ratio: float | None
    """None without draft tokens."""


class Trace(NamedTuple):
    """The pieces of the last ``seconds``, the oldest first."""

    seconds: float
    pieces: tuple[Piece, ...]


def acceptance_trace(window: Window, now: float) -> Trace:
    """Return the last five minutes of a window, or all of a shorter one; ``now`` is monotonic, in seconds.

    Pieces begin at multiples of their length, so that the line moves without jitter. An increment belongs to
    the piece in which it begins.
    """
    seconds = min(TRACE_SECONDS, window.length)
    step = seconds / TRACE_PIECES
    first = now // step - TRACE_PIECES
    begins = [(first + piece) * step for piece in range(TRACE_PIECES + 1)]
    places = window.increments.places(begins)
    sums = window.increments.between([*places, len(window.increments)])
    ratios = map(ratio, sums.counter(Counter.ACCEPTED_TOKENS), sums.counter(Counter.DRAFT_TOKENS))
    pieces = (
        Piece(now - (begin + min(begin + step, now)) / 2, value)
        for begin, value in zip(begins, ratios, strict=True)
    )
    return Trace(seconds, tuple(pieces))
