"""How far a figure moved between two measurements that do not depend on one another, and how sure that is.

The variance of a difference is the sum of both variances. Each was estimated with few degrees of freedom B,
so the difference has those of Welch and Satterthwaite,

    B = (v1 + v2)² / (v1²/B1 + v2²/B2)        bounds = difference ± t_B(0.975) · √(v1 + v2)

(Welch, *The generalization of Student's problem*, Biometrika 34, 1947). Where only bounds are known, as of a
quantile, the distances to them take the place of t times the errors, each in its own direction (Zou and
Donner, *Construction of confidence limits about effect measures*, Statistics in Medicine 27, 2008):

    lower = d - √((after - after's lower)² + (before's upper - before)²)        and upper the other way round
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, hypot, sqrt
from typing import Final

from exporter.analysis.measured import Measured

_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306),
    *(2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120),
    *(2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064),
)
"""The 0.975 quantile of Student's t for 1 to 24 degrees of freedom: twice the most cosines."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure before and after, in its own unit."""

    before: Measured
    after: Measured
    change: float
    """After less before."""
    lower: float | None
    """Null, as is ``upper``, where one of the two has no bounds."""
    upper: float | None

    @property
    def is_beyond_chance(self) -> bool:
        """Whether it is so large that chance does not explain it."""
        return self.lower is not None and self.upper is not None and not self.lower <= 0 <= self.upper

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after.value / self.before.value if self.before.value else None


def difference(before: Measured, after: Measured) -> Difference:
    """Return how far a figure has moved."""
    change = after.value - before.value
    distances = _by_errors(before, after) or _by_bounds(before, after)
    if distances is None:
        return Difference(before, after, change, None, None)
    return Difference(before, after, change, change - distances[0], change + distances[1])


def t_quantile(degrees: float) -> float:
    """Return the 0.975 quantile of Student's t; of a fraction of degrees that of the whole ones below."""
    # Whole degrees come out of Welch's formula with an error of rounding.
    return _T[min(max(floor(degrees + 1e-9), 1), len(_T)) - 1]


def _by_errors(before: Measured, after: Measured) -> tuple[float, float] | None:
    if before.standard_error is None or after.standard_error is None:
        return None
    variances = before.standard_error**2, after.standard_error**2
    total = sum(variances)
    spread = variances[0] ** 2 / (before.degrees or 1) + variances[1] ** 2 / (after.degrees or 1)
    half = t_quantile(total**2 / spread if spread else len(_T)) * sqrt(total)
    return half, half


def _by_bounds(before: Measured, after: Measured) -> tuple[float, float] | None:
    if before.lower is None or before.upper is None or after.lower is None or after.upper is None:
        return None
    return (
        hypot(after.value - after.lower, before.upper - before.value),
        hypot(after.upper - after.value, before.value - before.lower),
    )
