"""97.5 % quantiles of Student's t and the normal distribution, and Welch-Satterthwaite degrees of freedom.

The sum of two variances with B1 and B2 degrees of freedom has those of Welch and Satterthwaite,

    B = (v1 + v2)² / (v1²/B1 + v2²/B2)

(Welch, *The generalization of Student's problem*, Biometrika 34, 1947): between the smaller of them and their
sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import floor, sqrt
from typing import Final

T_QUANTILES: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306),
    *(2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120),
    *(2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064),
)
"""The 0.975 quantile of Student's t for 1 to 24 degrees of freedom: twice the most cosines of an estimate."""
NORMAL_975: Final = 1.959964  # the 0.975 quantile of the normal distribution


@lru_cache(maxsize=256)
def t_quantile(degrees: float) -> float:
    """Return the 0.975 quantile of Student's t, with degrees rounded down."""
    # Welch's formula returns whole degrees with a rounding error.
    whole = max(floor(degrees + 1e-9), 1)
    return T_QUANTILES[whole - 1] if whole <= len(T_QUANTILES) else _expanded(whole)


def _expanded(degrees: int) -> float:
    """Return the quantile by Cornish and Fisher's expansion, with an error of 0.000005 at 25 degrees.

    The first four terms (Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.7.5).
    """
    z = NORMAL_975
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def welch(errors: Sequence[float], degrees: Sequence[float]) -> tuple[float, float]:
    """Return the standard error of a sum or difference of independent values, and half its 95 % interval."""
    variances = [error**2 for error in errors]
    spread = sum(variance**2 / own for variance, own in zip(variances, degrees, strict=True))
    # Without variation any degrees are right. Squares of tiny variances underflow to 0 too.
    together = sum(variances) ** 2 / spread if spread else sum(degrees)
    error = sqrt(sum(variances))
    return error, t_quantile(together) * error
