"""Thresholds of cumulative sums (CUSUM) that detect a fall of the accepted tokens per draft.

With m0 accepted tokens per draft in the baseline and an allowance κ, X = max(0, X + (m0 - κ) D - A) stays low
while drafts are as in the baseline. X rises by Δ - κ per draft once they are lower by Δ (E. S. Page,
Biometrika 41, 1954).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p, sqrt

from spec_decode_exporter.drops.variance import Variance


def threshold(variance: float, allowance: float, drafts: float) -> float:
    """Return the X, in tokens, that independent drafts exceed once in ``drafts`` drafts on average.

    h = V/(2κ) · ln(1 + 2κ²N/V), from the diffusion with a ``variance`` V per draft (D. Siegmund, *Sequential
    Analysis*, 1985). Exact to V/(2κ²) drafts; the overshoot of the last increment is not included.
    """
    return variance / (2 * allowance) * _logarithm(variance, allowance, drafts)


def min_threshold(variances: Sequence[Variance], allowance: float, drafts: float) -> float:
    """Return the X that drafts exceed as rarely if the variance depends on n; the largest n comes first.

    A sum over n drafts falls by κ n on average. It rises by h instead with a probability of about
    exp(-(h + κ n)² / (2 n V_n)). That is rare enough at h = √(2 n V_n ln(…)) - κ n, with the logarithm of
    ``threshold``. The n with the highest h decides. If V is the same for all n, that n is V ln(…) / (2κ²) and
    h equals ``threshold``. Below the smallest n the variance is taken as constant.
    """
    smallest = variances[-1].drafts
    return max(
        _threshold_at(variance, allowance, drafts, is_smallest=variance.drafts == smallest)
        for variance in variances
    )


def _threshold_at(variance: Variance, allowance: float, drafts: float, *, is_smallest: bool) -> float:
    """Return the highest h of all n that are nearer to this one than to half or twice of it."""
    logarithm = _logarithm(variance.value, allowance, drafts)
    likeliest = variance.value * logarithm / (2 * allowance**2)
    lower = 0 if is_smallest else variance.drafts / sqrt(2)
    length = min(max(likeliest, lower), variance.drafts * sqrt(2))
    return sqrt(2 * length * variance.value * logarithm) - allowance * length


def _logarithm(variance: float, allowance: float, drafts: float) -> float:
    return log1p(2 * allowance**2 * drafts / variance)
