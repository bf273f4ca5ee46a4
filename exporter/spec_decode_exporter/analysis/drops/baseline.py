"""What is usual for an engine: means over the past, in which what is older weighs less."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from spec_decode_exporter.analysis.drops.interval import Amount, Interval
from spec_decode_exporter.figures.acceptance import acceptance_length


@dataclass(slots=True)
class Baseline:
    """Exponentially weighted sums. Only time with drafts makes them older."""

    seconds: Amount = 0.0
    drafts: Amount = 0.0
    accepted: Amount = 0.0
    squares: Amount = 0.0
    weighted_drafts: Amount = 0.0
    """Σ w² D over the stretches, w being their weights now."""

    def add(self, interval: Interval, memory: float) -> None:
        """Take in a stretch; what was there before loses weight by exp(-seconds / ``memory``)."""
        kept = exp(-interval.seconds / memory)
        self.seconds = kept * self.seconds + interval.seconds
        self.drafts = kept * self.drafts + interval.drafts
        self.accepted = kept * self.accepted + interval.accepted
        self.squares = kept * self.squares + interval.squares
        self.weighted_drafts = kept * kept * self.weighted_drafts + interval.drafts

    @property
    def mean(self) -> float:
        """The accepted tokens of a draft, A / D."""
        return self.accepted / self.drafts

    @property
    def length(self) -> float:
        """The acceptance length in tokens, 1 + A / D."""
        return acceptance_length(self.mean)

    @property
    def independent_variance(self) -> float:
        """The variance of the accepted tokens of one draft, E A² - (E A)²."""
        return self.squares / self.drafts - self.mean**2

    @property
    def effective_drafts(self) -> float:
        """Of how many drafts of equal weight a mean would be as sure: (Σ w D)² / Σ w² D."""
        return self.drafts**2 / self.weighted_drafts

    @property
    def drafts_per_second(self) -> float:
        """How much is drafted, while anything is."""
        return self.drafts / self.seconds
