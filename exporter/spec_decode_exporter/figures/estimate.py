"""Estimate: a ratio over a window with its 95 % bounds, from the variation of its increments.

For the residuals r_j = N_j - m·M_j of the ratio m = N/M over increments j = 1 … J and cosines b = 1 … B,

    L_b = √(2/J) · Σ_j r_j·cos(π·b·(j - ½)/J)        standard error of Σ r_j = √(J · mean of L_b²)

and m is within t_B(0.975) of these standard errors over M: the equal-weighted cosine estimator of a long-run
variance (U. K. Müller, *HAC corrections for strongly autocorrelated time series*, Journal of Business &
Economic Statistics 32, 2014). Drafts of one request are alike, so independent ones would give far too narrow
bounds. docs/explanation/coverage.md has the coverage of these bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import cos, isfinite, pi, sqrt
from operator import add, itemgetter, mul, sub
from typing import Final, NamedTuple

from spec_decode_exporter.figures.student_t import t_quantile

SHORT_SECONDS: Final = 30.0
MIN_BOUND_REQUESTS: Final = 5  # effective requests through a window that bounds need
LIVES_PER_COSINE: Final = 3.3
"""A cosine must be slow compared with the life of a request, or it underestimates the variance."""
_SHORT_COSINES, _MIN_COSINES, MAX_COSINES = 3, 2, 12
_GROWTH: Final = 0.6  # exponent of the number of cosines by the window's length: 3 at 30 s, 12 at 300 s
Column = Sequence[float]  # a value of each increment, oldest first, or what ``projected`` returns of them
Range = tuple[float, float]


class Estimate(NamedTuple):
    """A value with its 95 % bounds, all in the value's unit."""

    value: float
    lower: float
    upper: float
    standard_error: float  # at least that of independent drafts
    degrees: int = 0  # degrees of freedom of the error: the cosines that it is the mean of; 0 if unknown

    @property
    def half_width(self) -> float:
        """Distance of the farther bound: they are clipped to the possible range."""
        return max(self.upper - self.value, self.value - self.lower)


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """Divide; None if a side is unknown, the denominator is 0 or the quotient exceeds a float."""
    if numerator is None or not denominator:
        return None
    quotient = numerator / denominator
    return quotient if isfinite(quotient) else None


def cosines_of(seconds: float, effective_requests: float, lives: float) -> int:
    """Return B, the number of cosines of a window.

    Args:
        seconds: Covered time; B grows with it.
        effective_requests: Requests that pass through one after the other, as of equal length. With too few,
            B is 0: the window has no bounds.
        lives: Lives of a request that fit into the window, which limit B.
    """
    if effective_requests < MIN_BOUND_REQUESTS:
        return 0
    growth: float = max(seconds / SHORT_SECONDS, 1.0) ** _GROWTH
    enough = max(_MIN_COSINES, int(lives / LIVES_PER_COSINE))
    return min(round(_SHORT_COSINES * growth), enough, MAX_COSINES)


def standard_error(residuals: Column, cosines: int | None) -> float:
    """Return the standard error of a sum by its residuals, oldest first; 0 without cosines.

    Residuals are deviations from the mean of active increments: their sum is 0. None: they are ``projected``.
    """
    _, *parts = residuals if cosines is None else (projected([residuals], cosines) or [[0.0]])[0]
    return sqrt(2 / len(parts) * sum(map(mul, parts, parts))) if parts else 0.0


def estimate_of(
    numerators: Column, denominators: Column, cosines: int | None, possible: Range, min_error: float = 0.0
) -> Estimate | None:
    """Return Σ numerators / Σ denominators over increments, with bounds within the ``possible`` range.

    The bounds contain the value even if a torn page moved it out of that range. None without cosines, or with
    too few increments for two of them. ``cosines`` is None for columns that are ``projected`` already.
    """
    total_of = itemgetter(0) if cosines is None else sum
    total = total_of(denominators)
    value = total_of(numerators) / total if total > 0 else 0.0
    pairs = zip(numerators, denominators, strict=True)
    residuals = [n - value * m for n, m in pairs if n or m or cosines is None]
    number = min(MAX_COSINES if cosines is None else cosines, len(residuals) - 1, MAX_COSINES)
    if total <= 0 or number < _MIN_COSINES:
        return None
    error = max(standard_error(residuals, cosines) / total, min_error)
    half = t_quantile(number) * error
    lower, upper = max(possible[0], value - half), min(possible[1], value + half)
    return Estimate(value, min(value, lower), max(value, upper), error, number)


def projected(columns: Sequence[Column], cosines: int) -> list[Column]:
    """Return Σ x_j·cos(π·b·(j - ½)/J) over active increments for b = 0 … B of each column: first its sum.

    They are linear: of a weighted sum of columns they are the weighted sum. Empty without cosines.
    """
    number = min(cosines, len(columns[0]) - 1, MAX_COSINES) if columns else 0
    found = list[Column]()
    for before, column in pairwise(((), *columns)) if number > 0 else ():
        factor = column[0] / before[0] if before and before[0] else 0.0
        # Of a drafter that drafts K tokens in each step: D = S, and T = K·D.
        is_multiple = [*column] == [factor * value for value in before]
        found.append([factor * part for part in found[-1]] if is_multiple else _projection(column, number))
    return found


def sampled_ratio(number: float, x: float, xx: float, y: float, xy: float, yy: float) -> Estimate:  # noqa: PLR0917
    """Return Σx / Σy with its 95 % bounds by ``number`` > 1 independent pairs, and their sums of products.

    A ratio estimator (Cochran, *Sampling Techniques*, 1977, section 6.3), with Student's t.
    """
    value = x / y
    # The difference of large sums may be slightly negative.
    squares = max(0.0, xx - 2 * value * xy + value * value * yy)
    error = sqrt(number / (number - 1) * squares) / y
    half = t_quantile(number - 1) * error
    return Estimate(value, max(0.0, value - half), value + half, error, int(number) - 1)


def _projection(column: Column, cosines: int) -> Column:
    half, end = column[: len(column) // 2], column[::-1]
    sides = [*map(add, half, end), *column[len(half) : len(column) - len(half)]], [*map(sub, half, end)]
    return [sum(map(mul, sides[b % 2], wave)) for b, wave in enumerate(_half_waves(len(column), cosines))]


@lru_cache(maxsize=256)
def _half_waves(increments: int, cosines: int) -> list[list[float]]:
    """Return cos(π·b·(j - ½)/J) for the first half of j = 1 … J; at the other, an odd b changes its sign."""
    places = range((increments + 1) // 2)
    return [[cos(pi * b * (place + 0.5) / increments) for place in places] for b in range(cosines + 1)]
