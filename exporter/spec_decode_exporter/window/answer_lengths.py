"""Answer lengths of finished requests: their number and the sums that give the coefficient of variation.

The sums stand for a histogram in windows: three numbers instead of a column for each bucket. They are linear
in the counts, so differences over time and sums over engines stay exact.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, isqrt
from typing import Final, NamedTuple

from spec_decode_exporter.scrape.page.sample import Buckets

_LAST_BUCKET: Final = 2.5
"""Assumed ratio of the ends of the +Inf bucket. vLLM's bounds are 1, 2, 5, 10 … up to the longest possible
answer, so that the next bound, at most 2.5 times the highest one, exceeds every answer."""
_MILLI: Final = 1000


class AnswerLengths(NamedTuple):
    """Sums over finished requests, each taken at the geometric midpoint of its bucket."""

    requests: int
    millitokens: int
    """Sum of the lengths, in thousandths of a token."""
    squares: int
    """Sum of the squared lengths, in tokens squared."""

    @property
    def is_possible(self) -> bool:
        """False if a sum fell: the page was torn, or its counters were reset."""
        return min(self) >= 0

    def minus(self, before: AnswerLengths) -> AnswerLengths:
        """Return the requests since ``before``."""
        return AnswerLengths(*(new - old for old, new in zip(before, self, strict=True)))

    def plus(self, other: AnswerLengths) -> AnswerLengths:
        """Return the requests of both."""
        return AnswerLengths(*map(sum, zip(self, other, strict=True)))

    @property
    def squared_variation(self) -> float | None:
        """Squared coefficient of variation, n·Σl²/(Σl)² - 1; None without requests.

        Both sums use midpoints. The exact sum of the page as Σl would mix two scales: of answers that all
        have 201 tokens, in the bucket from 200 to 500, it makes 1.5 instead of 0.
        """
        if not self.millitokens:
            return None
        return max(0.0, self.requests * self.squares * _MILLI**2 / self.millitokens**2 - 1)


NO_ANSWERS: Final = AnswerLengths(0, 0, 0)


def answer_lengths(buckets: Buckets) -> AnswerLengths:
    """Return the sums over a histogram's requests."""
    counts = [higher - lower for lower, higher in pairwise((0, *buckets.counts))]
    squares = [_squared_midpoint(*edges) for edges in pairwise((0.0, *buckets.bounds))]
    return AnswerLengths(
        sum(counts),
        sum(count * isqrt(square * _MILLI**2) for count, square in zip(counts, squares, strict=True)),
        sum(count * square for count, square in zip(counts, squares, strict=True)),
    )


def _squared_midpoint(low: float, high: float) -> int:
    """Return the product of a bucket's ends, in tokens squared; the first bucket begins at its end."""
    if high == inf:
        high = _LAST_BUCKET * low
    return round((low or high) * high)
