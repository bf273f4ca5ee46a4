"""Accumulators of the variance of accepted tokens over 32, 64, 128 … drafts: see ``drops.variance``.

Differences of neighbouring sums are less sensitive to a slow trend than deviations from a mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from spec_decode_exporter.drops.variance import (
    LENGTHS,
    MIN_DIFFERENCES,
    Variance,
    cautious_mean,
    effective_count,
    sum_variances,
)
from spec_decode_exporter.monitor.drops.interval import Amount


@dataclass(slots=True)
class Differences:
    """Differences between neighbouring sums of one length."""

    drafts: Amount = 0.0
    accepted: Amount = 0.0
    """Accepted tokens of the incomplete sum."""
    last_drafts: Amount = 0.0
    last_accepted: Amount = 0.0
    weight: Amount = 0.0
    squared_weight: Amount = 0.0
    sum: Amount = 0.0
    """Weighted sum of (A₁/D₁ - A₂/D₂)² / (1/D₁ + 1/D₂)."""

    def add(self, drafts: float, accepted: float, length: float) -> tuple[float, float] | None:
        """Extend the incomplete sum; return its drafts and accepted tokens once it is complete."""
        self.drafts += drafts
        self.accepted += accepted
        if self.drafts < length:
            return None
        complete = self.drafts, self.accepted
        self.drafts = self.accepted = 0.0
        self.compare(*complete)
        return complete

    def compare(self, drafts: float, accepted: float) -> None:
        """Add the difference between a complete sum and the one before it."""
        if self.last_drafts:
            difference = accepted / drafts - self.last_accepted / self.last_drafts
            self.sum += difference * difference / (1 / drafts + 1 / self.last_drafts)
            self.weight += 1
            self.squared_weight += 1
        self.last_drafts, self.last_accepted = drafts, accepted

    def interrupt(self) -> None:
        """Discard the sums so far, so that they are not compared with later ones."""
        self.drafts = self.accepted = self.last_drafts = self.last_accepted = 0.0

    def fade(self, kept: float) -> None:
        """Multiply the weights of all differences so far by ``kept``."""
        self.weight *= kept
        self.squared_weight *= kept * kept
        self.sum *= kept

    @property
    def number(self) -> float:
        """Effective count of the differences."""
        return effective_count(self.weight, self.squared_weight)

    def variance(self) -> float:
        """Return a(n) plus its standard error."""
        return cautious_mean(self.sum / self.weight, self.number)


@dataclass(slots=True)
class Noise:
    """Differences of every length."""

    lengths: Annotated[list[Differences], Field(min_length=len(LENGTHS), max_length=len(LENGTHS))] = field(
        default_factory=lambda: [Differences() for _ in LENGTHS]
    )

    def add(self, drafts: float, accepted: float, kept: float) -> None:
        """Add an interval; multiply the weights of earlier ones by ``kept``."""
        for differences in self.lengths:
            differences.fade(kept)
        for length, differences in zip(LENGTHS, self.lengths, strict=True):
            complete = differences.add(drafts, accepted, length)
            if complete is None:
                return
            drafts, accepted = complete

    def interrupt(self) -> None:
        """Discard the sums so far, so that they are not compared with later ones."""
        for differences in self.lengths:
            differences.interrupt()

    def variances(self, longest: float) -> list[Variance]:
        """Return B(n), the largest n first, up to ``longest`` drafts and as far as enough was observed."""
        return sum_variances(
            Variance(length, differences.variance())
            for length, differences in reversed(list(zip(LENGTHS, self.lengths, strict=True)))
            if length <= max(longest, LENGTHS[0]) and differences.number >= MIN_DIFFERENCES
        )
