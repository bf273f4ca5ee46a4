"""Variance of a count per unit, cumulative sums, and their thresholds, which follow from the variance.

Drafts of one request are alike, so sums over many drafts vary more than sums of independent drafts. The
variance per draft is therefore measured at many lengths n, each twice the one before, by the differences a(n)
of neighbouring sums (D. W. Allan, Proc. IEEE 54, 1966), which a slow trend does not raise:

    a(n) = mean of (A₁/D₁ - A₂/D₂)² / (1/D₁ + 1/D₂)

The variance B(n) of sums follows from a(n) = 2 B(n) - B(2n), beginning at the largest n, where B is about a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log1p, sqrt
from typing import Annotated, Final, NamedTuple

from pydantic import AliasChoices, Field

from spec_decode_exporter.core.numbers import Amount, Product
from spec_decode_exporter.drops.sums import Sums, Units

LENGTHS: Final = tuple(32 << power for power in range(14))  # units of the sums whose variance is measured
MIN_DIFFERENCES: Final = 4  # differences that a variance needs
_FREEDOM: Final = 2 / 3  # degrees of freedom of a difference: neighbouring differences share a sum


class Variance(NamedTuple):
    """Variance of the count of sums of a length, per unit."""

    length: float
    value: float


@dataclass(slots=True)
class Differences:
    """Differences between neighbouring sums of one length; older ones have less weight."""

    units: Units = 0.0
    """Of the incomplete sum, like its count. Older state files have counts as accepted tokens."""
    count: Annotated[Amount, Field(validation_alias=AliasChoices("count", "accepted"))] = 0.0
    last_units: Units = 0.0  # of the last complete sum
    last_count: Annotated[Amount, Field(validation_alias=AliasChoices("last_count", "last_accepted"))] = 0.0
    weight: Amount = 0.0
    squared_weight: Amount = 0.0
    sum: Product = 0.0  # weighted sum of (A₁/D₁ - A₂/D₂)² / (1/D₁ + 1/D₂)

    def add(self, units: float, count: float, complete_at: float) -> tuple[float, float] | None:
        """Extend the incomplete sum; once it is complete, compare it with the one before, and return it."""
        self.units += units
        self.count += count
        if self.units < complete_at:
            return None
        complete = self.units, self.count
        if self.last_units:
            difference = self.count / self.units - self.last_count / self.last_units
            self.sum += difference * difference / (1 / self.units + 1 / self.last_units)
            self.weight += 1
            self.squared_weight += 1
        self.last_units, self.last_count = complete
        self.units = self.count = 0.0
        return complete

    @property
    def number(self) -> float:
        """Number of equally weighted differences with the same standard error: (Σ w)² / Σ w²."""
        return self.weight * self.weight / self.squared_weight if self.squared_weight else 0.0

    @property
    def allan(self) -> float:
        """The variance a(n), raised by its standard error, a √(2 / degrees of freedom)."""
        return self.sum / self.weight * (1 + sqrt(2 / (_FREEDOM * self.number)))


@dataclass(slots=True)
class Noise:
    """Differences of sums of every length, the shortest first: two complete sums make one of the next."""

    lengths: Annotated[list[Differences], Field(max_length=len(LENGTHS))] = field(default_factory=list)

    def add(self, units: float, count: float, kept: float) -> None:
        """Add the units and the count of an interval; multiply earlier weights by ``kept``."""
        for differences in self.lengths:
            differences.weight *= kept
            differences.squared_weight *= kept * kept
            differences.sum *= kept
        for place, complete_at in enumerate(LENGTHS):
            if place == len(self.lengths):
                self.lengths.append(Differences())
            complete = self.lengths[place].add(units, count, complete_at)
            if complete is None:
                return
            units, count = complete

    def interrupt(self) -> None:
        """Discard the sums so far, so that they are not compared with later ones."""
        for each in self.lengths:
            each.units = each.count = each.last_units = each.last_count = 0.0

    def variances(self, longest: float) -> list[Variance]:
        """Return B(n), the largest n first, up to ``longest`` and as far as enough was observed."""
        found: list[Variance] = []
        for length, differences in reversed(list(zip(LENGTHS, self.lengths, strict=False))):
            if length <= max(longest, LENGTHS[0]) and differences.number >= MIN_DIFFERENCES:
                allan = differences.allan
                found.append(Variance(length, (allan + found[-1].value) / 2 if found else allan))
        return found


def threshold(variances: Sequence[Variance], allowance: float, units: float) -> float:
    """Return the X, in tokens, that a cumulative sum exceeds by chance once in ``units`` on average.

    With m0 accepted tokens per unit and an allowance κ, X = max(0, X + (m0 - κ) D - A) falls by κ a unit.
    It rises by h over n units instead with a probability of about exp(-(h + κ n)² / (2 n V_n)). That is rare
    enough at h = √(2 n V_n ln(1 + 2κ²N/V)) - κ n (D. Siegmund, *Sequential Analysis*, 1985). The n with the
    highest h decides. If V is the same for all n, that is n = V ln(…) / (2κ²), and h = V ln(…) / (2κ).

    ``variances`` begin with the largest n. Each counts for the n that are nearer to it than to half or twice
    of it; the last one for smaller n, too. ``units`` is N.
    """
    highest = 0.0
    for length, variance in variances:
        logarithm = log1p(2 * allowance**2 * units / variance)
        lower = 0.0 if length == variances[-1].length else length / sqrt(2)
        likeliest = min(max(variance * logarithm / (2 * allowance**2), lower), length * sqrt(2))
        highest = max(highest, sqrt(2 * likeliest * variance * logarithm) - allowance * likeliest)
    return highest


@dataclass(slots=True)
class Cusum:
    """Cumulative sum that never falls below 0."""

    sum: Product = 0.0
    since: Sums = field(default_factory=Sums)
    """Units since the sum was last 0: the most likely begin of a change."""
    began: Amount = 0.0  # moment of that begin

    def exceeds(self, evidence: float, limit: Callable[[], float], increment: Sums, moment: float) -> bool:
        """Add the evidence of an increment; return whether the sum exceeds the limit."""
        total = self.sum + evidence
        if total <= 0:
            if self.sum:
                self.reset()
            return False
        if not self.sum:
            self.began = moment
        self.sum = total
        self.since.add(increment)
        return total > limit()

    def reset(self) -> None:
        """Start at 0."""
        self.sum, self.since = 0.0, Sums()
