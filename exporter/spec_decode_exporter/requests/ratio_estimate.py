"""Ratio of two sums over requests, with its bounds.

Over n requests m = Σx / Σy is a ratio estimator (Cochran, *Sampling Techniques*, 1977, section 6.3). Its
standard error is

    s = √(n/(n - 1) · Σ (x - m·y)²) / Σy

The bounds are Student's t with n - 1 degrees of freedom. Whole requests are the sample. So correlation within
a request does not make the bounds too narrow; correlation between requests of one conversation does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from operator import mul
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.student_t import t_quantile

MIN_REQUESTS: Final = 30
"""Below, the error of a ratio estimator is itself unknown (Cochran, section 6.8)."""


class RatioSums(NamedTuple):
    """Sums over requests of x, y and their products."""

    requests: int = 0
    x: float = 0.0
    xx: float = 0.0
    y: float = 0.0
    xy: float = 0.0
    yy: float = 0.0


def ratio_sums(xs: Sequence[int], ys: Sequence[int]) -> RatioSums:
    """Add up requests."""
    squares = (sum(map(mul, *pair)) for pair in ((xs, xs), (xs, ys), (ys, ys)))
    xx, xy, yy = squares
    return RatioSums(len(xs), sum(xs), xx, sum(ys), xy, yy)


def add_ratio_sums(parts: Iterable[RatioSums]) -> RatioSums:
    """Return the total of several sums."""
    return RatioSums(*map(sum, zip(RatioSums(), *parts, strict=True)))


def ratio_estimate(sums: RatioSums) -> Estimate | None:
    """Return Σx / Σy with its 95 % bounds; None for fewer than ``MIN_REQUESTS``."""
    number, x, xx, y, xy, yy = sums
    if number < MIN_REQUESTS or not y:
        return None
    value = x / y
    # The difference of large sums may be slightly negative.
    squares = max(0.0, xx - 2 * value * xy + value * value * yy)
    error = sqrt(number / (number - 1) * squares) / y
    half = t_quantile(number - 1) * error
    return Estimate(value, max(0.0, value - half), value + half, error, number - 1)
