"""Acceptance of an engine in pieces of the last minutes, and by load, for the charts of the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf, sqrt
from operator import truediv
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.estimate import Estimate, estimate_of, ratio
from spec_decode_exporter.window.engine_windows import Window, columns, scaled

TRACE_SECONDS: Final = 300.0
TRACE_PIECES: Final = 60  # pieces at most; fewer if polls are rare, so that each piece has one
_INTERVALS: Final = 1.4  # poll intervals of a piece at least, since polls are not quite regular


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


class LengthAtLoad(NamedTuple):
    """Drafts of a window's polls at loads within a doubling."""

    first: int
    """Fewest running requests."""
    last: int
    drafts: int
    length: Estimate
    """Acceptance length."""


def lengths_by_load(its: WindowEvaluation) -> list[LengthAtLoad]:
    """Return the acceptance length by load, ascending; empty without two loads that have bounds.

    It may fall with the load, on the same prompts.
    """
    if its.window.mean.running_requests is None:
        return []
    (polls,) = columns(its.increments, "polls")
    places: dict[int, list[int]] = defaultdict(list)
    for place, load in enumerate(map(truediv, scaled(its.increments, "load_billionths"), polls)):
        places[2 ** max(1, round(load)).bit_length()].append(place)
    rows = [row for end in sorted(places) if (row := _at_load(its, end, places[end]))]
    return rows if len(rows) > 1 else []


def _at_load(its: WindowEvaluation, end: int, places: Sequence[int]) -> LengthAtLoad | None:
    """Return the row of loads below ``end``; their share of the polls has that share of the cosines."""
    counted = columns(its.increments, "drafts", "accepted_tokens")
    drafts, accepted = ([column[place] for place in places] for column in counted)
    cosines = round(its.cosines * len(places) / len(its.increments))
    error = sqrt((its.draft_variance or 0.0) / (sum(drafts) or 1))
    found = estimate_of(accepted, drafts, cosines, (0.0, len(its.positions) or inf), error)
    if found is None:
        return None
    length = found._replace(value=1 + found.value, lower=1 + found.lower, upper=1 + found.upper)
    return LengthAtLoad(end // 2, end - 1, sum(drafts), length)
