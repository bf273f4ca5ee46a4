"""Drops of the acceptance length: their kinds, and the sums that find where one begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from spec_decode_exporter.analysis.drops.cusum import Cusum
from spec_decode_exporter.analysis.drops.interval import Amount, Interval


class DropKind(StrEnum):
    """How the acceptance length fell; the value is the ``kind`` label."""

    SUDDEN = "sudden"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class DropChange:
    """A drop was found, or is over."""

    kind: DropKind
    dropped: bool
    baseline_length: float
    """The acceptance length that was usual, in tokens."""
    length: float
    """The acceptance length over the ``seconds``."""
    seconds: float
    """For how long it has been so, as far as the drafts tell; silence is left out."""
    learned_again: bool = False
    """Acceptance is not back: the drop has lasted so long that it is what is usual now."""


class DropStep(NamedTuple):
    """What an increment adds to a sum, and where the sum is high enough."""

    evidence: float
    """For a drop."""
    threshold: float


@dataclass(slots=True)
class Alarm:
    """Sums that each find a drop. While there is one, the first is the mirrored sum that finds its end."""

    sums: list[Cusum]
    found: Amount | None = None
    """When the drop was found, by ``Stretches.elapsed``; None if there is none."""
    drop: Interval = field(default_factory=Interval)
    """What was drafted since it began."""

    @property
    def dropped(self) -> bool:
        """Whether there is a drop."""
        return self.found is not None

    def observe(self, steps: Sequence[DropStep], increment: Interval, now: float) -> Interval | None:
        """Add an increment; if that begins or ends a drop, return what was drafted since the change."""
        return self._begin(steps, increment, now) if self.found is None else self._end(steps[0], increment)

    def halve(self, thresholds: Sequence[float]) -> None:
        """Leave the sums at most half of what it takes."""
        for one, threshold in zip(self.sums, thresholds, strict=True):
            one.sum = min(one.sum, threshold / 2)

    def _begin(self, steps: Sequence[DropStep], increment: Interval, now: float) -> Interval | None:
        since = None
        for one, (evidence, threshold) in zip(self.sums, steps, strict=True):
            if one.add(evidence, threshold, increment):
                since = one.since
        if since:
            self.found, self.drop = now, since
            self._reset()
        return since

    def _end(self, step: DropStep, increment: Interval) -> Interval | None:
        self.drop.add(increment)
        one = self.sums[0]
        if not one.add(-step.evidence, step.threshold, increment):
            return None
        since, self.found = one.since, None
        self._reset()
        return since

    def _reset(self) -> None:
        for one in self.sums:
            one.reset()
