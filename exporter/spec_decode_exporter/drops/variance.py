"""Variance of the accepted tokens of n drafts, per draft, by n.

Drafts of one request are alike. Sums over many drafts therefore vary more than sums of independent drafts.
The variance grows with n until n is much larger than the drafts of a request. So it is measured at many n,
by the differences a(n) of neighbouring sums of n drafts (D. W. Allan, Proc. IEEE 54, 1966):

    a(n) = mean of (A₁/D₁ - A₂/D₂)² / (1/D₁ + 1/D₂)

The variance B(n) of sums follows from a(n) = 2 B(n) - B(2n), beginning at the largest n, where B is about a.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Final, NamedTuple

LENGTHS: Final = tuple(32 << power for power in range(14))
"""Values of n in drafts, up to 262 144."""
MIN_DIFFERENCES: Final = 4
"""Differences that a variance needs."""
_FREEDOM: Final = 2 / 3
"""Degrees of freedom of a difference: neighbouring differences share a sum."""


class Variance(NamedTuple):
    """Variance of the accepted tokens of ``drafts`` drafts, per draft."""

    drafts: int
    value: float


def effective_count(weight: float, squared_weight: float) -> float:
    """Return the count of equally weighted values with the same standard error: (Σ w)² / Σ w²."""
    return weight * weight / squared_weight if squared_weight else 0.0


def cautious_mean(mean: float, count: float) -> float:
    """Return a mean of ``count`` squared differences plus its standard error, a √(2 / degrees of freedom)."""
    return mean * (1 + sqrt(2 / (_FREEDOM * count)))


def sum_variances(differences: Iterable[Variance]) -> list[Variance]:
    """Return B(n) from a(n); both begin with the largest n."""
    variances: list[Variance] = []
    for drafts, allan in differences:
        variances.append(Variance(drafts, (allan + variances[-1].value) / 2 if variances else allan))
    return variances


def variance_of(drafts: float, variances: Sequence[Variance]) -> float:
    """Return the variance of a sum over ``drafts`` drafts, per draft; the largest n comes first."""
    long_enough = (variance.value for variance in reversed(variances) if variance.drafts >= drafts)
    return next(long_enough, variances[0].value)


def length_error(drafts: float, variances: Sequence[Variance], baseline_drafts: float) -> float:
    """Return the standard error of the difference between the length of ``drafts`` drafts and a baseline."""
    return sqrt(variance_of(drafts, variances) / drafts + variances[0].value / baseline_drafts)
