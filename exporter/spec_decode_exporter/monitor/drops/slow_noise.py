"""Variation of the acceptance length over intervals of ten minutes that is traffic, not a drop.

The kind of requests changes over tens of minutes, so neighbouring intervals are alike. Their sum then varies
more than the sum of independent intervals. The variance is therefore measured at 10, 20 and 40 minutes, by
differences of neighbours (``drops.variance``): a slow decline does not raise it. Slower variation
shows only as shortfalls from the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp
from typing import Annotated, Final

from pydantic import Field

from spec_decode_exporter.drops.variance import MIN_DIFFERENCES, Variance, sum_variances
from spec_decode_exporter.monitor.drops.interval import Amount, Interval
from spec_decode_exporter.monitor.drops.noise import Differences

MEMORY: Final = 3 * 86_400.0
"""In seconds with drafts."""
SCALES: Final = (1, 2, 4)
"""Lengths of the sums that are compared, in intervals; each is twice the one before."""
SHORTFALL_INTERVALS: Final = 16
MIN_SHORTFALLS: Final = 2.5
"""Sums of shortfalls that a variance needs, by their weight: three recent ones."""


@dataclass(slots=True)
class SlowNoise:
    """Differences between neighbouring sums of 1, 2 and 4 intervals."""

    scales: Annotated[list[Differences], Field(min_length=len(SCALES), max_length=len(SCALES))] = field(
        default_factory=lambda: [Differences() for _ in SCALES]
    )

    def add(self, interval: Interval) -> None:
        """Add an interval."""
        kept = exp(-interval.seconds / MEMORY)
        for differences in self.scales:
            differences.fade(kept)
        drafts, accepted = interval.drafts, interval.accepted
        self.scales[0].compare(drafts, accepted)
        for differences in self.scales[1:]:
            is_first = not differences.drafts
            differences.drafts += drafts
            differences.accepted += accepted
            if is_first:
                return
            drafts, accepted = differences.drafts, differences.accepted
            differences.drafts = differences.accepted = 0.0
            differences.compare(drafts, accepted)

    def interrupt(self) -> None:
        """Discard incomplete sums, so that they are not compared with later ones."""
        for differences in self.scales:
            differences.interrupt()

    @property
    def is_known(self) -> bool:
        """Return whether enough differences were observed."""
        return self.scales[0].number >= MIN_DIFFERENCES

    def variance(self) -> float:
        """Return the largest variance of a sum of intervals, per draft."""
        measured = [
            Variance(length, differences.variance())
            for length, differences in zip(SCALES, self.scales, strict=True)
            if differences.number >= MIN_DIFFERENCES
        ]
        return max(each.value for each in sum_variances(reversed(measured)))


@dataclass(slots=True)
class Shortfalls:
    """Sums of 16 intervals' deviations from the baseline, relative to it: their variance by those below it.

    Deviations above the baseline do not count, since the baseline is the lower of two. The variance of a
    symmetric sum is twice the mean square of its negative part.
    """

    intervals: Annotated[int, Field(ge=0, le=SHORTFALL_INTERVALS)] = 0
    sum: Annotated[float, Field(ge=-1e100, le=1e100, allow_inf_nan=False)] = 0.0
    weight: Amount = 0.0
    squares: Amount = 0.0

    def add(self, deviation: float, seconds: float) -> None:
        """Add the relative deviation of an interval of ``seconds``; negative below the baseline."""
        kept = exp(-seconds / MEMORY)
        self.weight *= kept
        self.squares *= kept
        self.intervals += 1
        self.sum += deviation
        if self.intervals >= SHORTFALL_INTERVALS:
            self.weight += 1
            self.squares += min(0.0, self.sum) ** 2
            self.intervals, self.sum = 0, 0.0

    @property
    def variance(self) -> float:
        """Variance of a sum, per interval; 0 until enough sums were observed."""
        if self.weight < MIN_SHORTFALLS:
            return 0.0
        return 2 * self.squares / self.weight / SHORTFALL_INTERVALS
