"""How much faster an arm is than its baseline, with bounds.

The speed-up is the ratio b/a of what both take, each a ratio of sums with its own standard error. Its
logarithm is ln b - ln a; by the delta method (Casella and Berger, *Statistical Inference*, 2002, section
5.5.4) the variance of ln b is (s_b/b)², and the arms serve different requests, so the two add up:

    s² = (s_b/b)² + (s_a/a)²        bounds = b/a · exp(± t·s)

t is Student's 0.975 quantile at the degrees of freedom that Welch and Satterthwaite give such a sum (Welch,
Biometrika 34, 1947): s⁴ / ((s_b/b)⁴/B_b + (s_a/a)⁴/B_a), rounded down. A load that both arms share makes the
bounds too wide, not too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

from exporter.analysis.arm import Measured
from exporter.analysis.bounds import T_QUANTILES
from exporter.analysis.estimate import Estimate


@dataclass(frozen=True, slots=True)
class ArmSpeedup:
    """How many times as fast as the baseline an arm is."""

    value: float
    estimate: Estimate | None
    """The same with its 95 % bounds; None where one of the arms has none."""


def arm_speedup(baseline: Measured, arm: Measured) -> ArmSpeedup:
    """Return how much faster ``arm`` is; both take something, and less is faster."""
    value = baseline.value / arm.value
    if baseline.relative_error is None or arm.relative_error is None:
        return ArmSpeedup(value, None)
    variances = [baseline.relative_error**2, arm.relative_error**2]
    error = sqrt(sum(variances))
    freedom = _freedom(variances, [baseline.freedom, arm.freedom])
    widening = exp(T_QUANTILES[freedom] * error)
    return ArmSpeedup(value, Estimate(value, value / widening, value * widening, value * error))


def _freedom(variances: list[float], freedoms: list[int]) -> int:
    """Return the degrees of freedom of a sum of variances: between the least of them and their sum."""
    highest = len(T_QUANTILES) - 1
    weights = sum(variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True))
    if not weights:  # nothing varies, and 0 is as wide at any freedom
        return highest
    return min(int(sum(variances) ** 2 / weights + 1e-9), highest)
