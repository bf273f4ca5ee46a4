"""Slow drops: a cumulative sum over stretches of ten minutes, against a baseline of the hours before."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, sqrt
from typing import Final

from spec_decode_exporter.analysis.drops.baseline import Baseline
from spec_decode_exporter.analysis.drops.cusum import Cusum
from spec_decode_exporter.analysis.drops.drop import Alarm, DropChange, DropKind, DropStep
from spec_decode_exporter.analysis.drops.interval import Interval, IntervalSplitter
from spec_decode_exporter.analysis.drops.noise import LEAST_DIFFERENCES, Differences
from spec_decode_exporter.config.policy import DropPolicy

INTERVAL_SECONDS: Final = 600.0
LAG_SECONDS: Final = 3600.0
MEMORY: Final = 8 * 3600.0
"""Of the baseline, in seconds with drafts."""
ALLOWANCE: Final = 0.5
THRESHOLD: Final = 7.0
"""Both in standard deviations of a stretch."""
LEAST_DEVIATION: Final = 1 / 3
"""A standard deviation is at least this part of the policy's drop. With many drafts a second, chance is next
to nothing, and it would be a drop if acceptance is lower by one in a hundred at some hour of the day."""
FROZEN_SECONDS: Final = 8 * 3600.0
"""After so long, a drop is what is usual now."""


@dataclass(slots=True)
class SlowState:
    """Everything that is remembered."""

    stretches: IntervalSplitter = field(default_factory=IntervalSplitter)
    baseline: Baseline = field(default_factory=Baseline)
    differences: Differences = field(default_factory=Differences)
    """Between neighbouring stretches."""
    alarm: Alarm = field(default_factory=lambda: Alarm([Cusum()]))


class SlowDropDetector:
    """Watches for slow drops."""

    def __init__(self, policy: DropPolicy) -> None:
        """Watch by a policy, which may be replaced at any time."""
        self.policy = policy
        self.state = SlowState()

    @property
    def dropped(self) -> bool | None:
        """Whether there is a drop; None as long as too little was seen to judge by."""
        enough = self.state.differences.number >= LEAST_DIFFERENCES
        return self.state.alarm.dropped if enough else None

    def observe(self, increment: Interval) -> DropChange | None:
        """Take an increment; return the drop that it begins or ends."""
        complete = self.state.stretches.add(increment, INTERVAL_SECONDS)
        return (self._take(complete) if complete else None) or self._grown_old()

    def restore(self, state: SlowState) -> None:
        """Go on from a state. Its age is not known, so the sum keeps at most half of what it takes."""
        self.state = state
        state.alarm.halve([THRESHOLD])

    def _take(self, interval: Interval) -> DropChange | None:
        state = self.state
        self._learn()
        if self.dropped is None:
            return None
        usual = state.baseline.length
        step = DropStep((usual - interval.length) / self._deviation(interval) - ALLOWANCE, THRESHOLD)
        since = state.alarm.observe([step], interval, state.stretches.elapsed)
        if not since:
            return None
        self._forget_the_last_hour()
        return DropChange(DropKind.SLOW, state.alarm.dropped, usual, since.length, since.seconds)

    def _deviation(self, interval: Interval) -> float:
        """Return how far the acceptance length of a stretch usually lies from the baseline, in tokens."""
        baseline = self.state.baseline
        per_draft = self.state.differences.variance()
        chance = sqrt(per_draft * (1 / interval.drafts + 1 / baseline.effective_drafts))
        return max(chance, LEAST_DEVIATION * self.policy.ratio * baseline.length)

    def _learn(self) -> None:
        state = self.state
        for one in state.stretches.older_than(LAG_SECONDS):
            if state.alarm.dropped:
                continue
            state.baseline.add(one, MEMORY)
            state.differences.fade(exp(-one.seconds / MEMORY))
            state.differences.compare(one.drafts, one.accepted)

    def _forget_the_last_hour(self) -> None:
        """Learn nothing of what was held back: it is a part of the drop."""
        self.state.stretches.held.clear()
        self.state.differences.interrupt()

    def _grown_old(self) -> DropChange | None:
        state = self.state
        found, drop, usual = state.alarm.found, state.alarm.drop, state.baseline
        if found is None or state.stretches.elapsed - found < FROZEN_SECONDS:
            return None
        self.state = SlowState()
        return DropChange(DropKind.SLOW, False, usual.length, drop.length, drop.seconds, learned_again=True)
