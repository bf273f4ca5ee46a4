"""Slow drops: a cumulative sum over intervals of ten minutes, below the lower of two baselines.

Traffic changes the length too, by the hour of the day. A drop is a length below each of these that is known:

- the eight hours before the last hour;
- the same hour of the days before (``HourBaseline``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Annotated, Final

from pydantic import Field

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drop import DropChange, DropKind
from spec_decode_exporter.monitor.drops.alarm import Alarm, Cusum, DropStep
from spec_decode_exporter.monitor.drops.baseline import Baseline
from spec_decode_exporter.monitor.drops.hour_baseline import HourBaseline
from spec_decode_exporter.monitor.drops.interval import Interval, IntervalSplitter
from spec_decode_exporter.monitor.drops.slow_noise import Shortfalls, SlowNoise

INTERVAL_SECONDS: Final = 600.0
LAG_SECONDS: Final = 3600.0
MEMORY: Final = 8 * 3600.0
"""Memory of the baseline, in seconds with drafts."""
MIN_BASELINE_SECONDS: Final = 2400.0
"""Weighted seconds of a baseline: with less, its own variation would be a drop."""
ALLOWANCE: Final = 0.5
THRESHOLD: Final = 7.0
"""Allowance and threshold are in standard deviations of an interval."""
FIRST_ALLOWANCE: Final = 1.0
FIRST_THRESHOLD: Final = 9.0
"""The minima of both as long as the hour has no day before, in minimum standard deviations.

A daily mix of requests alone changes the length by 2 % an hour."""
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
    hours: HourBaseline = field(default_factory=HourBaseline)
    noise: SlowNoise = field(default_factory=SlowNoise)
    shortfalls: Shortfalls = field(default_factory=Shortfalls)
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
        state = self.state
        enough = state.noise.is_known and state.baseline.seconds >= MIN_BASELINE_SECONDS
        return state.alarm.dropped if enough else None

    def observe(self, increment: Interval) -> DropChange | None:
        """Add an increment; return the drop that it begins or ends."""
        complete = self.state.intervals.add(increment, INTERVAL_SECONDS)
        return (self._add_interval(complete) if complete else None) or self._reset_if_old()

    def restore(self, state: SlowState) -> None:
        """Continue from a state. Its age is unknown, so the sums are at most half of their thresholds."""
        self.state = state
        state.alarm.halve([THRESHOLD])

    def _add_interval(self, interval: Interval) -> DropChange | None:
        state = self.state
        self._learn()
        hour = state.hours.length(_middle(interval)) if interval.wall else None
        if state.alarm.dropped and hour is None:
            self._learn_hour(interval)
        if self.dropped is None:
            return None
        recent = state.baseline.length
        length = recent if hour is None else min(recent, hour)
        if hour is not None:
            state.shortfalls.add(interval.length / length - 1, interval.seconds)
        step = self._step(interval, length, is_first_day=hour is None)
        since = state.alarm.observe([step], interval, state.intervals.elapsed)
        if since is None:
            return None
        self._discard_held()
        return DropChange(self.kind, state.alarm.dropped, length, since.length, since.seconds)

    def _step(self, interval: Interval, length: float, *, is_first_day: bool) -> DropStep:
        """Return the evidence that an interval is below a length, in standard deviations."""
        deviation = self._deviation(interval)
        allowance, threshold = ALLOWANCE, THRESHOLD
        if is_first_day:
            floors = self._min_deviation / deviation
            allowance = max(allowance, FIRST_ALLOWANCE * floors)
            threshold = max(threshold, FIRST_THRESHOLD * floors)
        return DropStep((length - interval.length) / deviation - allowance, threshold)

    def _deviation(self, interval: Interval) -> float:
        """Return the standard deviation of an interval's acceptance length from the baseline, in tokens."""
        state, baseline = self.state, self.state.baseline
        chance = sqrt(state.noise.variance() * (1 / interval.drafts + 1 / baseline.effective_drafts))
        return max(chance, sqrt(state.shortfalls.variance) * baseline.length, self._min_deviation)

    @property
    def _min_deviation(self) -> float:
        return MIN_DEVIATION * self.policy.ratio * self.state.baseline.length

    def _learn(self) -> None:
        state = self.state
        for interval in state.intervals.older_than(LAG_SECONDS):
            if state.alarm.dropped:
                continue
            state.baseline.add(interval, MEMORY)
            state.noise.add(interval)
            self._learn_hour(interval)

    def _learn_hour(self, interval: Interval) -> None:
        """Add an interval to its hour; during a drop an hour without a day before also learns.

        Without it a false drop on the first day would hide these hours on the second.
        """
        if interval.wall:
            self.state.hours.add(_middle(interval), interval.drafts, interval.accepted)

    def _discard_held(self) -> None:
        """Discard the intervals of the last hour: they belong to the drop, not to the baseline."""
        self.state.intervals.held.clear()
        self.state.noise.interrupt()

    def _reset_if_old(self) -> DropChange | None:
        state = self.state
        found, drop, baseline = state.alarm.found, state.alarm.drop, state.baseline
        if found is None or state.intervals.elapsed - found < FROZEN_SECONDS:
            return None
        state.noise.interrupt()
        self.state = SlowState(hours=state.hours, noise=state.noise, shortfalls=state.shortfalls)
        return DropChange(self.kind, False, baseline.length, drop.length, drop.seconds, learned_again=True)


def _middle(interval: Interval) -> float:
    """Return the middle of an interval in Unix time."""
    return interval.wall - interval.seconds / 2
