"""How far the acceptance of an engine wanders by itself: the variance of sums over n drafts, per draft.

Drafts of one request are alike, so sums over many drafts vary far more than those of independent ones would:
the more, the longer they are, until they are much longer than a request. So the variance is measured at many
lengths. Stretches of 32, 64, 128 … drafts are compared each with the one before it, which a slow trend
disturbs less than it would the variance around a mean (D. W. Allan, Proc. IEEE 54, 1966):

    a(n) = mean of (A₁/D₁ - A₂/D₂)² / (1/D₁ + 1/D₂)

The variance of sums B(n) follows from a(n) = 2 B(n) - B(2n), beginning at the longest, where B is about a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.analysis.drops.interval import Amount

LENGTHS: Final = tuple(32 << power for power in range(14))
"""In drafts, up to 262 144."""
LEAST_DIFFERENCES: Final = 4
"""Lengths of which fewer differences were seen say nothing."""
_FREEDOM: Final = 2 / 3
"""Degrees of freedom of a difference: neighbouring ones share a stretch."""


class Variance(NamedTuple):
    """Of the accepted tokens of ``drafts`` drafts together, for each of the drafts."""

    drafts: int
    value: float


@dataclass(slots=True)
class Differences:
    """Stretches of one length, compared each with the one before it."""

    drafts: Amount = 0.0
    accepted: Amount = 0.0
    """Of the stretch under way."""
    last_drafts: Amount = 0.0
    last_accepted: Amount = 0.0
    weight: Amount = 0.0
    squared_weight: Amount = 0.0
    sum: Amount = 0.0
    """Of the weighted (A₁/D₁ - A₂/D₂)² / (1/D₁ + 1/D₂)."""

    def add(self, drafts: float, accepted: float, length: float) -> tuple[float, float] | None:
        """Go on with the stretch under way; return its drafts and accepted tokens if that completes it."""
        self.drafts += drafts
        self.accepted += accepted
        if self.drafts < length:
            return None
        complete = self.drafts, self.accepted
        self.drafts = self.accepted = 0.0
        self.compare(*complete)
        return complete

    def compare(self, drafts: float, accepted: float) -> None:
        """Take in a whole stretch."""
        if self.last_drafts:
            difference = accepted / drafts - self.last_accepted / self.last_drafts
            self.sum += difference * difference / (1 / drafts + 1 / self.last_drafts)
            self.weight += 1
            self.squared_weight += 1
        self.last_drafts, self.last_accepted = drafts, accepted

    def interrupt(self) -> None:
        """Compare nothing of what was with what comes."""
        self.drafts = self.accepted = self.last_drafts = self.last_accepted = 0.0

    def fade(self, kept: float) -> None:
        """Let everything so far lose weight."""
        self.weight *= kept
        self.squared_weight *= kept * kept
        self.sum *= kept

    @property
    def number(self) -> float:
        """Of how many differences of equal weight a mean would be as sure: (Σ w)² / Σ w²."""
        return self.weight * self.weight / self.squared_weight if self.squared_weight else 0.0

    def variance(self) -> float:
        """Return a(n) and once the standard error that it has, a(n) √(2 / degrees of freedom)."""
        return self.sum / self.weight * (1 + sqrt(2 / (_FREEDOM * self.number)))


@dataclass(slots=True)
class Noise:
    """The differences of every length."""

    lengths: Annotated[list[Differences], Field(min_length=len(LENGTHS), max_length=len(LENGTHS))] = field(
        default_factory=lambda: [Differences() for _ in LENGTHS]
    )

    def add(self, drafts: float, accepted: float, kept: float) -> None:
        """Take in a stretch; what was there before keeps ``kept`` of its weight."""
        for one in self.lengths:
            one.fade(kept)
        for length, one in zip(LENGTHS, self.lengths, strict=True):
            complete = one.add(drafts, accepted, length)
            if complete is None:
                return
            drafts, accepted = complete

    def interrupt(self) -> None:
        """Compare nothing of what was with what comes."""
        for one in self.lengths:
            one.interrupt()

    def variances(self, longest: float) -> list[Variance]:
        """Return B(n), longest first, up to ``longest`` drafts and as far as enough was seen."""
        found: list[Variance] = []
        for length, one in reversed(list(zip(LENGTHS, self.lengths, strict=True))):
            if length <= max(longest, LENGTHS[0]) and one.number >= LEAST_DIFFERENCES:
                allan = one.variance()
                found.append(Variance(length, (allan + found[-1].value) / 2 if found else allan))
        return found


def variance_of(drafts: float, variances: Sequence[Variance]) -> float:
    """Return the variance of a sum over so many drafts, per draft, by lengths from the longest on."""
    return next((one.value for one in reversed(variances) if one.drafts >= drafts), variances[0].value)
