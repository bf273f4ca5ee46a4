"""Pace of an arm, and its speed-up over the baseline with bounds.

The speed-up is the ratio b/a of the paces, each a ratio of sums with its own standard error. Its logarithm is
ln b - ln a; by the delta method (Casella and Berger, *Statistical Inference*, 2002, section 5.5.4) the
variance of ln b is (s_b/b)². The arms serve different requests, so both are added:

    s² = (s_b/b)² + (s_a/a)²        bounds = b/a · exp(± t·s)

t is Student's 0.975 quantile at the degrees of freedom of such a sum (``student_t``). A load that both arms
share makes the bounds too wide, never too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, sqrt
from typing import NamedTuple

from spec_decode_exporter.figures.estimate import Estimate, estimate_of
from spec_decode_exporter.figures.student_t import degrees_of_sum, t_quantile


class ArmSpeedup(NamedTuple):
    """Speed-up of an arm over the baseline."""

    value: float
    estimate: Estimate | None
    """Value with its 95 % bounds; None if one of the arms has none."""


class Pace(NamedTuple):
    """Time of an arm by one basis; less is faster. Each basis has its own unit."""

    value: float
    relative_error: float | None = None
    """Standard error over value; None if unknown."""
    degrees: int = 0
    """Degrees of freedom of that error."""

    def speedup_over(self, baseline: Pace) -> ArmSpeedup:
        """Return the speed-up over a baseline; both paces are positive."""
        value = baseline.value / self.value
        if baseline.relative_error is None or self.relative_error is None:
            return ArmSpeedup(value, None)
        variances = [baseline.relative_error**2, self.relative_error**2]
        error = sqrt(sum(variances))
        widening = exp(t_quantile(degrees_of_sum(variances, [baseline.degrees, self.degrees])) * error)
        return ArmSpeedup(value, Estimate(value, value / widening, value * widening, value * error))


def pace_of(value: float, above: Sequence[float], below: Sequence[float], cosines: int) -> Pace:
    """Return a pace with the error of the ratio Σ ``above`` / Σ ``below`` over cells of time."""
    estimate = estimate_of(above, below, cosines, (0.0, inf))
    if estimate is None or value <= 0:
        return Pace(value)
    return Pace(value, estimate.standard_error / value, estimate.degrees)
