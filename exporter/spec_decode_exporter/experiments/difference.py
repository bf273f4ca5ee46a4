"""Difference of a figure between two independent measurements, with its 95 % bounds.

The variance of a difference is the sum of both variances, whose degrees of freedom B are Welch's
(``student_t``):

    bounds = difference ± t_B(0.975) · √(v1 + v2)

If only bounds are known, as of a quantile, the distances to them take the place of t times the errors, each
in its own direction (Zou and Donner, *Construction of confidence limits about effect measures*, Statistics in
Medicine 27, 2008):

    lower = d - √((after - after's lower)² + (before's upper - before)²)        and upper the other way round
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from spec_decode_exporter.experiments.measurement import MeasuredFigure
from spec_decode_exporter.figures.student_t import degrees_of_sum, t_quantile


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure before and after, in its own unit."""

    before: MeasuredFigure
    after: MeasuredFigure
    change: float
    """After minus before."""
    lower: float | None
    """Null, as is ``upper``, if one of the two has no bounds."""
    upper: float | None

    @property
    def is_beyond_chance(self) -> bool:
        """True if it is statistically significant (95 %)."""
        return self.lower is not None and self.upper is not None and not self.lower <= 0 <= self.upper

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after.value / self.before.value if self.before.value else None


def difference(before: MeasuredFigure, after: MeasuredFigure) -> Difference:
    """Return the difference of a figure."""
    change = after.value - before.value
    distances = _by_errors(before, after) or _by_bounds(before, after)
    if distances is None:
        return Difference(before, after, change, None, None)
    return Difference(before, after, change, change - distances[0], change + distances[1])


def _by_errors(before: MeasuredFigure, after: MeasuredFigure) -> tuple[float, float] | None:
    if before.standard_error is None or after.standard_error is None:
        return None
    variances = before.standard_error**2, after.standard_error**2
    degrees = degrees_of_sum(variances, [before.degrees or 1, after.degrees or 1])
    half = t_quantile(degrees) * sqrt(sum(variances))
    return half, half


def _by_bounds(before: MeasuredFigure, after: MeasuredFigure) -> tuple[float, float] | None:
    if before.lower is None or before.upper is None or after.lower is None or after.upper is None:
        return None
    return (
        hypot(after.value - after.lower, before.upper - before.value),
        hypot(after.upper - after.value, before.value - before.lower),
    )
