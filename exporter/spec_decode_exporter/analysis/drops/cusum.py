"""Cumulative sums (CUSUM) that find a fall of the accepted tokens per draft, and how high they must be.

With m0 accepted tokens per draft as usual and an allowance κ, X = max(0, X + (m0 - κ) D - A) stays low as
long as drafts are as usual, and rises by Δ - κ per draft once they are worse by Δ (E. S. Page, Biometrika 41,
1954).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log1p, sqrt

from spec_decode_exporter.analysis.drops.interval import Amount, Interval
from spec_decode_exporter.analysis.drops.noise import Variance


def threshold(variance: float, allowance: float, drafts: float) -> float:
    """Return the X, in tokens, that independent drafts pass once in ``drafts`` drafts on average.

    h = V/(2κ) · ln(1 + 2κ²N/V), from the diffusion that X is for a ``variance`` V per draft (D. Siegmund,
    *Sequential Analysis*, 1985). Exact to V/(2κ²) drafts, and without the overshoot of the last increment.
    """
    return variance / (2 * allowance) * _logarithm(variance, allowance, drafts)


def least_threshold(variances: Sequence[Variance], allowance: float, drafts: float) -> float:
    """Return the X that drafts pass as rarely whose sums vary differently by their length, longest first.

    A sum over n drafts is expected to fall by κ n. That it rises by h instead has a probability of about
    exp(-(h + κ n)² / (2 n V_n)). That is as rare as wanted at h = √(2 n V_n ln(…)) - κ n, with the logarithm
    of ``threshold``; the length at which h is the highest decides. Where V is the same at all lengths, that
    length is V ln(…) / (2κ²) and h is what ``threshold`` says. Below the shortest length V is taken to be the
    same as there.
    """
    shortest = variances[-1].drafts
    return max(_threshold_at(one, allowance, drafts, any_shorter=one.drafts == shortest) for one in variances)


def _threshold_at(variance: Variance, allowance: float, drafts: float, *, any_shorter: bool) -> float:
    """Return the highest h of the lengths that are nearer to this one than to half or twice of it."""
    logarithm = _logarithm(variance.value, allowance, drafts)
    likeliest = variance.value * logarithm / (2 * allowance**2)
    least = 0 if any_shorter else variance.drafts / sqrt(2)
    length = min(max(likeliest, least), variance.drafts * sqrt(2))
    return sqrt(2 * length * variance.value * logarithm) - allowance * length


def _logarithm(variance: float, allowance: float, drafts: float) -> float:
    return log1p(2 * allowance**2 * drafts / variance)


@dataclass(slots=True)
class Cusum:
    """One sum that never falls below 0."""

    sum: Amount = 0.0
    since: Interval = field(default_factory=Interval)
    """What was drafted since it was last 0: the likeliest beginning of a change."""

    def add(self, evidence: float, threshold: float, increment: Interval) -> bool:
        """Add what an increment says; return whether the sum is now above the threshold."""
        total = self.sum + evidence
        if total > 0:
            self.sum = total
            self.since.add(increment)
            return total > threshold
        if self.sum:
            self.reset()
        return False

    def reset(self) -> None:
        """Start at 0."""
        self.sum = 0.0
        self.since = Interval()
