"""Speed-up of an arm over its baseline, with bounds.

The speed-up is the ratio b/a of their times, each a ratio of sums with its own standard error. Its
logarithm is ln b - ln a; by the delta method (Casella and Berger, *Statistical Inference*, 2002, section
5.5.4) the variance of ln b is (s_b/b)², and the arms serve different requests, so both are added:

    s² = (s_b/b)² + (s_a/a)²        bounds = b/a · exp(± t·s)

t is Student's 0.975 quantile at the degrees of freedom of such a sum (``welch``), rounded down. A load that
both arms share makes the bounds too wide, never too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

from spec_decode_exporter.experiments.arm import ArmPace
from spec_decode_exporter.figures.student_t import degrees_of_sum, t_quantile
from spec_decode_exporter.figures.estimate import Estimate


@dataclass(frozen=True, slots=True)
class ArmSpeedup:
    """Speed-up of an arm over the baseline."""

    value: float
    estimate: Estimate | None
    """Value with its 95 % bounds; None if one of the arms has none."""


def arm_speedup(baseline: ArmPace, arm: ArmPace) -> ArmSpeedup:
    """Return the speed-up of ``arm``; both times are positive."""
    value = baseline.value / arm.value
    if baseline.relative_error is None or arm.relative_error is None:
        return ArmSpeedup(value, None)
    variances = [baseline.relative_error**2, arm.relative_error**2]
    error = sqrt(sum(variances))
    widening = exp(t_quantile(degrees_of_sum(variances, [baseline.degrees, arm.degrees])) * error)
    return ArmSpeedup(value, Estimate(value, value / widening, value * widening, value * error))
