"""Answer lengths of finished requests: power sums, which say how much the lengths differ.

The sums stand for a histogram in windows: four numbers instead of a column for each bucket. They are linear
in the counts, so differences over time and sums over engines are exact.

Each request has the geometric midpoint of its bucket. All results are ratios of sums, so a common error of
scale cancels. The exact sum of the page would mix two scales: for answers of 201 tokens, in the bucket from
200 to 500, cv² would be 1.5 instead of 0.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.scrape.page.sample import Buckets

_LAST_BUCKET: Final = 2.5
"""Assumed ratio of the ends of the +Inf bucket. vLLM's bounds are 1, 2, 5, 10 … up to the longest possible
answer, so the next bound, at most 2.5 times the highest one, exceeds every answer."""
_MAX_TOKENS: Final = 200_000
"""Maximum midpoint: the cubes of a window, at 50,000 tokens a second for 5 minutes, stay below 2^60."""
_MAX_SUM: Final = 2**60
_MILLI: Final = 1000


class AnswerLengths(NamedTuple):
    """Power sums over finished requests."""

    requests: int
    millitokens: int
    """Sum of the lengths, in thousandths of a token."""
    squares: int
    cubes: int

    @property
    def is_possible(self) -> bool:
        """False if a sum fell, or is too large: a torn page, a reset, or no such answers."""
        return min(self) >= 0 and max(self) <= _MAX_SUM

    def minus(self, before: AnswerLengths) -> AnswerLengths:
        """Return the requests since ``before``."""
        return AnswerLengths(*(new - old for old, new in zip(before, self, strict=True)))

    def plus(self, other: AnswerLengths) -> AnswerLengths:
        """Return the requests of both."""
        return AnswerLengths(*map(sum, zip(self, other, strict=True)))

    @property
    def equal_share(self) -> float | None:
        """1/(1 + cv²) = (Σl)²/(n·Σl²): the share of requests of equal length with the same certainty.

        cv is the coefficient of variation. None without requests.
        """
        if not self.squares:
            return None
        return min(1.0, (self.millitokens / _MILLI) ** 2 / (self.requests * self.squares))

    @property
    def life_share(self) -> float | None:
        """Mean length over its mean weighted by squares, Σl·Σl²/(n·Σl³). None without requests.

        A request of l tokens adds l² to the variance of a sum over requests, for a time that is proportional
        to l. So Σl³/Σl² is the mean length that matters for how fast the sum varies.
        """
        if not self.cubes:
            return None
        return min(1.0, self.millitokens / _MILLI * self.squares / (self.requests * self.cubes))


NO_ANSWERS: Final = AnswerLengths(0, 0, 0, 0)


def answer_lengths(buckets: Buckets) -> AnswerLengths:
    """Return the power sums of a histogram."""
    counts = [higher - lower for lower, higher in pairwise((0, *buckets.counts))]
    lengths = [_midpoint(*edges) for edges in pairwise((0.0, *buckets.bounds))]
    return AnswerLengths(
        sum(counts),
        *(
            sum(count * round(scale * length**power) for count, length in zip(counts, lengths, strict=True))
            for power, scale in ((1, _MILLI), (2, 1), (3, 1))
        ),
    )


def _midpoint(low: float, high: float) -> float:
    """Return the geometric midpoint of a bucket, in tokens; of the first one its end."""
    if high == inf:
        high = _LAST_BUCKET * low
    return min(sqrt((low or high) * high), _MAX_TOKENS)
