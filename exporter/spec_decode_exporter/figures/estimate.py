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
from math import cos, isfinite, pi, sqrt
from operator import add, mul, sub
from typing import Final, NamedTuple

from spec_decode_exporter.figures.student_t import t_quantile

SHORT_SECONDS: Final = 30.0
MIN_BOUND_REQUESTS: Final = 5
"""Effective requests through a window that bounds need."""
LIVES_PER_COSINE: Final = 3.3
"""A cosine must be slow compared with the life of a request, or it underestimates the variance."""
_SHORT_COSINES, _MIN_COSINES, MAX_COSINES = 3, 2, 12
_GROWTH: Final = 0.6
"""Exponent of the number of cosines by the window's length: 3 at 30 s, 12 at 300 s."""


class Estimate(NamedTuple):
    """A value with its 95 % bounds, all in the value's unit."""

    value: float
    lower: float
    upper: float
    standard_error: float
    """At least that of independent drafts."""
    degrees: int = 0
    """Degrees of freedom of the error: the cosines that it is the mean of; 0 if unknown."""

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


def standard_error(residuals: Sequence[float], cosines: int) -> float:
    """Return the standard error of a sum by its residuals, oldest first; 0 without cosines.

    Residuals are deviations from the mean, one for each increment with activity, so their sum is 0.
    """
    number = min(cosines, len(residuals) - 1, MAX_COSINES)
    return 0.0 if number < 1 else _error_of_sum(residuals, number)


def estimate_of(
    numerators: Sequence[float],
    denominators: Sequence[float],
    cosines: int,
    possible: tuple[float, float],
    min_error: float = 0.0,
) -> Estimate | None:
    """Return Σ numerators / Σ denominators over increments, with bounds within the ``possible`` range.

    The bounds contain the value even if a torn page moved it out of that range. None without cosines, or with
    too few increments for two of them.
    """
    total = sum(denominators)
    if total <= 0:
        return None
    value = sum(numerators) / total
    residuals = [n - value * m for n, m in zip(numerators, denominators, strict=True) if n or m]
    number = min(cosines, len(residuals) - 1, MAX_COSINES)
    if number < _MIN_COSINES:
        return None
    error = max(_error_of_sum(residuals, number) / total, min_error)
    half = t_quantile(number) * error
    lower, upper = max(possible[0], value - half), min(possible[1], value + half)
    return Estimate(value, min(value, lower), max(value, upper), error, number)


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


def _error_of_sum(residuals: Sequence[float], number: int) -> float:
    half, end = residuals[: len(residuals) // 2], residuals[::-1]
    sides = [*map(sub, half, end)], [*map(add, half, end), *residuals[len(half) : len(residuals) - len(half)]]
    waves = enumerate(_half_waves(len(residuals), number))
    return sqrt(2 / number * sum([sum(map(mul, sides[place % 2], wave)) ** 2 for place, wave in waves]))


@lru_cache(maxsize=256)
def _half_waves(increments: int, number: int) -> list[list[float]]:
    """Return cos(π·b·(j - ½)/J) for the first half of j = 1 … J; at the other, an odd b changes its sign."""
    places = range((increments + 1) // 2)
    return [[cos(pi * b * (place + 0.5) / increments) for place in places] for b in range(1, number + 1)]
