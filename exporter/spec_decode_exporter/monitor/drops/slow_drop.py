"""Slow drops: a cumulative sum over intervals of ten minutes, with a baseline of the hours before."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, sqrt
from typing import Annotated, Final

from pydantic import Field

from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind
from spec_decode_exporter.analysis.drops.variance import MIN_DIFFERENCES
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.alarm import Alarm, Cusum, DropStep
from spec_decode_exporter.monitor.drops.baseline import Baseline
from spec_decode_exporter.monitor.drops.interval import Interval, IntervalSplitter
from spec_decode_exporter.monitor.drops.noise import Differences

INTERVAL_SECONDS: Final = 600.0
LAG_SECONDS: Final = 3600.0
MEMORY: Final = 8 * 3600.0
"""Memory of the baseline, in seconds with drafts."""
ALLOWANCE: Final = 0.5
THRESHOLD: Final = 7.0
"""Allowance and threshold are in standard deviations of an interval."""
MIN_DEVIATION: Final = 1 / 3
"""Minimum standard deviation, as a share of the policy's drop.

With many drafts per second the measured deviation is nearly 0. A daily variation of 1 % would be a drop."""
FROZEN_SECONDS: Final = 8 * 3600.0
"""Duration of a drop after which the baseline is reset."""


@dataclass(slots=True)
class SlowState:
    """Persisted state."""

    intervals: Annotated[IntervalSplitter, Field(alias="stretches")] = field(default_factory=IntervalSplitter)
    baseline: Baseline = field(default_factory=Baseline)
    differences: Differences = field(default_factory=Differences)
    """Differences between neighbouring intervals."""
    alarm: Alarm = field(default_factory=lambda: Alarm([Cusum()]))


class SlowDropDetector:
    """Detects slow drops."""

    kind = DropKind.SLOW

    def __init__(self, policy: DropPolicy) -> None:
        """Use ``policy``, which may be replaced at any time."""
        self.policy = policy
        self.state = SlowState()

    @property
    def dropped(self) -> bool | None:
        """Return whether there is a drop; None until enough was observed."""
        enough = self.state.differences.number >= MIN_DIFFERENCES
        return self.state.alarm.dropped if enough else None

    def observe(self, increment: Interval) -> DropChange | None:
        """Add an increment; return the drop that it begins or ends."""
        complete = self.state.intervals.add(increment, INTERVAL_SECONDS)
        return (self._add_interval(complete) if complete else None) or self._reset_if_old()

    def restore(self, state: SlowState) -> None:
        """Continue from a state. Its age is unknown, so the sum is at most half of its threshold."""
        self.state = state
        state.alarm.halve([THRESHOLD])

    def _add_interval(self, interval: Interval) -> DropChange | None:
        state = self.state
        self._learn()
        if self.dropped is None:
            return None
        expected = state.baseline.length
        step = DropStep((expected - interval.length) / self._deviation(interval) - ALLOWANCE, THRESHOLD)
        since = state.alarm.observe([step], interval, state.intervals.elapsed)
        if not since:
            return None
        self._discard_held()
        return DropChange(self.kind, state.alarm.dropped, expected, since.length, since.seconds)

    def _deviation(self, interval: Interval) -> float:
        """Return the standard deviation of an interval's acceptance length from the baseline, in tokens."""
        baseline = self.state.baseline
        per_draft = self.state.differences.variance()
        chance = sqrt(per_draft * (1 / interval.drafts + 1 / baseline.effective_drafts))
        return max(chance, MIN_DEVIATION * self.policy.ratio * baseline.length)

    def _learn(self) -> None:
        state = self.state
        for interval in state.intervals.older_than(LAG_SECONDS):
            if state.alarm.dropped:
                continue
            state.baseline.add(interval, MEMORY)
            state.differences.fade(exp(-interval.seconds / MEMORY))
            state.differences.compare(interval.drafts, interval.accepted)

    def _discard_held(self) -> None:
        """Discard the intervals of the last hour: they belong to the drop, not to the baseline."""
        self.state.intervals.held.clear()
        self.state.differences.interrupt()

    def _reset_if_old(self) -> DropChange | None:
        state = self.state
        found, drop, baseline = state.alarm.found, state.alarm.drop, state.baseline
        if found is None or state.intervals.elapsed - found < FROZEN_SECONDS:
            return None
        self.state = SlowState()
        return DropChange(self.kind, False, baseline.length, drop.length, drop.seconds, learned_again=True)
