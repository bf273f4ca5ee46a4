"""Cumulative sums that detect the begin and the end of a drop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spec_decode_exporter.monitor.drops.interval import Amount, Interval


@dataclass(slots=True)
class Cusum:
    """Cumulative sum that never falls below 0."""

    sum: Amount = 0.0
    since: Interval = field(default_factory=Interval)
    """Drafts since the sum was last 0: the most likely begin of a change."""
    began: Amount = 0.0
    """Moment of that begin, by ``IntervalSplitter.elapsed``."""

    def add(self, evidence: float, threshold: float, increment: Interval, now: float) -> bool:
        """Add the evidence of an increment at ``now``; return whether the sum exceeds the threshold."""
        total = self.sum + evidence
        if total > 0:
            if not self.sum:
                self.began = now
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


def _always(_: Interval) -> bool:
    return True


class DropStep(NamedTuple):
    """Contribution of an increment to a sum, and the sum's threshold."""

    evidence: float
    """Evidence of a drop."""
    threshold: float


@dataclass(slots=True)
class Alarm:
    """Sums that each detect a drop. During a drop the first, mirrored, detects its end."""

    sums: list[Cusum]
    found: Amount | None = None
    """Moment of the detection, by ``IntervalSplitter.elapsed``; None without a drop."""
    drop: Interval = field(default_factory=Interval)
    """Drafts since the drop began."""
    changed: Amount = 0.0
    """Most likely moment of the last change, the begin or the end of a drop, on the same clock."""

    @property
    def dropped(self) -> bool:
        """Return whether there is a drop."""
        return self.found is not None

    def observe(
        self,
        steps: Sequence[DropStep],
        increment: Interval,
        now: float,
        is_drop: Callable[[Interval], bool] = _always,
    ) -> Interval | None:
        """Add an increment; if it begins or ends a drop, return the drafts since the change.

        A sum whose drafts are no drop by ``is_drop`` starts again.
        """
        if self.found is None:
            return self._begin(steps, increment, now, is_drop)
        return self._end(steps[0], increment, now)

    def end(self, now: float) -> None:
        """End the drop, which was over at ``now`` at the latest; the mirrored sum tells the moment."""
        cusum = self.sums[0]
        self.changed = min(cusum.began, now) if cusum.sum else now
        self.found = None
        self._reset()

    def halve(self, thresholds: Sequence[float]) -> None:
        """Limit each sum to half of its threshold."""
        for cusum, threshold in zip(self.sums, thresholds, strict=True):
            cusum.sum = min(cusum.sum, threshold / 2)

    def _begin(
        self,
        steps: Sequence[DropStep],
        increment: Interval,
        now: float,
        is_drop: Callable[[Interval], bool],
    ) -> Interval | None:
        since = None
        for cusum, (evidence, threshold) in zip(self.sums, steps, strict=True):
            if not cusum.add(evidence, threshold, increment, now):
                continue
            if is_drop(cusum.since):
                since, self.changed = cusum.since, cusum.began
            else:
                cusum.reset()
        if since:
            self.found, self.drop = now, since
            self._reset()
        return since

    def _end(self, step: DropStep, increment: Interval, now: float) -> Interval | None:
        self.drop.add(increment)
        cusum = self.sums[0]
        if not cusum.add(-step.evidence, step.threshold, increment, now):
            return None
        since = cusum.since
        self.end(now)
        return since

    def _reset(self) -> None:
        for cusum in self.sums:
            cusum.reset()
