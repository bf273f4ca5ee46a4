"""Baseline of an engine: exponentially weighted sums over its past drafts."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final

from spec_decode_exporter.monitor.drops.interval import Amount, Interval

FEW_STEPS: Final = 0.05
MOST_STEPS: Final = 0.95
"""Shares of steps with a draft between which a drafter searches. Batches and torn pages blur none and all."""


@dataclass(slots=True)
class Baseline:
    """Exponentially weighted sums. Weights decrease only over time with drafts."""

    seconds: Amount = 0.0
    drafts: Amount = 0.0
    accepted: Amount = 0.0
    squares: Amount = 0.0
    weighted_drafts: Amount = 0.0
    """Σ w² D over the intervals, with their present weights w."""
    drafted: Amount = 0.0
    """Steps with a draft: see ``Interval``."""
    partly: Amount = 0.0
    """Decode steps of intervals of which some steps have a draft, and some have none."""

    def add(self, interval: Interval, memory: float) -> None:
        """Add an interval; multiply the weights of earlier ones by exp(-seconds / ``memory``)."""
        kept = exp(-interval.seconds / memory)
        self.seconds = kept * self.seconds + interval.seconds
        self.drafts = kept * self.drafts + interval.drafts
        self.accepted = kept * self.accepted + interval.accepted
        self.squares = kept * self.squares + interval.squares
        self.weighted_drafts = kept * kept * self.weighted_drafts + interval.drafts
        self.drafted = kept * self.drafted + interval.drafted
        is_partly = FEW_STEPS * interval.drafts < interval.drafted < MOST_STEPS * interval.drafts
        self.partly = kept * self.partly + is_partly * interval.drafts

    @property
    def mean(self) -> float:
        """Accepted tokens per draft, A / D."""
        return self.accepted / self.drafts

    @property
    def length(self) -> float:
        """Acceptance length in tokens, 1 + A / D."""
        return 1 + self.mean

    @property
    def independent_variance(self) -> float:
        """Variance of the accepted tokens of one draft, E A² - (E A)²."""
        return self.squares / self.drafts - self.mean**2

    @property
    def effective_drafts(self) -> float:
        """Count of equally weighted drafts with the same standard error: (Σ w D)² / Σ w² D."""
        return self.drafts**2 / self.weighted_drafts

    @property
    def drafts_per_second(self) -> float:
        """Drafts per second with drafts."""
        return self.drafts / self.seconds
