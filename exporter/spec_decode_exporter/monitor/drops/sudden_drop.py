"""Sudden drops: cumulative sums over the increments, with a baseline of about the last half hour.

A drop ends when the mirrored sum exceeds its threshold, or after 30 seconds of enough normal drafts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, sqrt
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drop import DropChange, DropKind, LiveDrop
from spec_decode_exporter.drops.threshold import min_threshold
from spec_decode_exporter.drops.variance import Variance, length_error
from spec_decode_exporter.monitor.drops.alarm import Alarm, Cusum, DropStep
from spec_decode_exporter.monitor.drops.baseline import Baseline
from spec_decode_exporter.monitor.drops.interval import Amount, Interval, IntervalSplitter
from spec_decode_exporter.monitor.drops.noise import Noise

INTERVAL_SECONDS: Final = 5.0
LAG_SECONDS: Final = 20.0
"""Age of the newest drafts in the baseline: a drop must not be part of its own baseline."""
BASELINE_MEMORY: Final = 1800.0
NOISE_MEMORY: Final = 4 * 3600.0
"""Memory of the variances: they need far more drafts than a mean."""
MAX_SUM_SECONDS: Final = 900.0
"""Longest sums whose variance counts; the baseline follows slower changes."""
UNCERTAIN_SECONDS: Final = 600.0
"""History with which a variance is doubled; with twice as much it is multiplied by 1.5, and so on.

Requests may last longer than the history. Then their differences do not show yet."""
NORMAL_SECONDS: Final = 30.0
"""Time with normal drafts after which a drop is over."""
NORMAL_SPAN: Final = NORMAL_SECONDS + INTERVAL_SECONDS
"""Age of the oldest of these drafts: they are in intervals of five seconds."""
NORMAL_SHARE: Final = 1 / 4
"""Share of the policy's drop by which normal drafts may be below the baseline.

It is the maximum standard error of enough drafts, too. Drafts of the smallest drop are thus three standard
errors below normal ones."""
FROZEN_SECONDS: Final = 1800.0
"""Duration of a drop after which the baseline is reset."""
LIMITS_SECONDS: Final = 60.0
"""Longest time between two updates of the thresholds."""
LIMITS_SHARE: Final = 1 / 30
"""Time between two updates of the thresholds, as a share of the history, up to ``LIMITS_SECONDS``.

What is newer has at most this share of the baseline. With an update for each interval, the thresholds were a
fifth of the cost of a poll, and most of the cost of a history."""
MIN_VARIANCE: Final = 0.25
"""Minimum variance of a draft: that of a fair coin. Even a drafter without misses may miss one day."""
SIZES: Final = (1, 2)
"""Sizes of drops that the sums detect fastest, in units of the policy's. The second finds large ones sooner.
Most false alarms of one sum are also those of the other. Both are rarer than the formula states."""


class DropLimits(NamedTuple):
    """Parameters of one sum."""

    accepted: float
    """Accepted tokens per draft, m0 - κ: fewer are evidence of a drop."""
    threshold: float


@dataclass(slots=True)
class SuddenState:
    """Persisted state."""

    intervals: Annotated[IntervalSplitter, Field(alias="stretches")] = field(default_factory=IntervalSplitter)
    baseline: Baseline = field(default_factory=Baseline)
    noise: Noise = field(default_factory=Noise)
    alarm: Alarm = field(default_factory=lambda: Alarm([Cusum() for _ in SIZES]))
    """Alarm with one sum for each of ``SIZES``."""
    learns_from: Amount = 0.0
    """Earliest begin of an interval to learn from, by ``IntervalSplitter.elapsed``; before it was a drop."""


class SuddenDropDetector:
    """Detects sudden drops."""

    kind = DropKind.SUDDEN

    def __init__(self, policy: DropPolicy) -> None:
        """Use ``policy``, which may be replaced at any time; it takes effect within seconds."""
        self.policy = policy
        self.shared_by = 1
        """Number of detectors that share the policy's budget of false alarms."""
        self.state = SuddenState()
        self.variances: list[Variance] = []
        """Variances of the relevant sums, the largest n first; empty until enough was observed."""
        self._limits: list[DropLimits] = []
        self._updated = 0.0
        """Time of the last update, by ``IntervalSplitter.elapsed``."""
        self._updated_for = policy

    @property
    def dropped(self) -> bool | None:
        """Return whether there is a drop; None until enough was observed."""
        return self.state.alarm.dropped if self._limits else None

    def observe(self, increment: Interval) -> DropChange | None:
        """Add an increment; return the drop that it begins or ends."""
        state = self.state
        since = self._compare(increment) if increment.drafts > 0 and self._limits else None
        state.intervals.add(increment, INTERVAL_SECONDS)
        if state.intervals.held and state.intervals.held[0].end <= state.intervals.elapsed - LAG_SECONDS:
            self._learn()
        since = since or self._end_if_normal()
        return self._change(since) if since else self._reset_if_old()

    def live(self) -> LiveDrop | None:
        """Return the present drop; None without one."""
        state = self.state
        if not self.dropped:
            return None
        drop, age = state.alarm.drop, state.intervals.elapsed - state.alarm.changed
        recent = state.intervals.newer_than(NORMAL_SPAN) if age >= NORMAL_SPAN else None
        return LiveDrop(state.baseline.length, (recent or drop).length, age)

    def error(self, drafts: float) -> float:
        """Return the standard error of the length of ``drafts`` drafts minus that of the baseline."""
        return length_error(drafts, self.variances, self.state.baseline.effective_drafts)

    def restore(self, state: SuddenState) -> None:
        """Continue from a state. Its age is unknown, so the sums are at most half of their thresholds."""
        self.state, self.variances, self._limits = state, [], []
        self._update_limits()
        thresholds = [limit.threshold for limit in self._limits]
        state.alarm.halve(thresholds or [0.0] * len(SIZES))

    def _compare(self, increment: Interval) -> Interval | None:
        """Add an increment to the sums; return the drafts since a drop began or ended with it."""
        state, drafts, accepted = self.state, increment.drafts, increment.accepted
        steps = [DropStep(expected * drafts - accepted, threshold) for expected, threshold in self._limits]
        since = state.alarm.observe(steps, increment, state.intervals.elapsed, self._is_drop)
        if since:
            state.learns_from = state.intervals.elapsed
        return since

    def _is_drop(self, since: Interval) -> bool:  # noqa: ARG002 - other kinds look at it
        """Return whether drafts whose sum exceeds its threshold are a drop."""
        return True

    def _end_if_normal(self) -> Interval | None:
        """End the drop if the newest drafts are enough and normal; return them."""
        state = self.state
        if not self.dropped:
            return None
        begin = state.intervals.elapsed - NORMAL_SPAN
        recent = state.intervals.newer_than(NORMAL_SPAN) if begin >= state.alarm.changed else None
        if recent is None or recent.seconds < NORMAL_SECONDS:
            return None
        margin = NORMAL_SHARE * self.policy.ratio * state.baseline.length
        if self.error(recent.drafts) > margin or recent.length < state.baseline.length - margin:
            return None
        state.alarm.end(begin)
        state.learns_from = begin
        return recent

    def _change(self, since: Interval) -> DropChange:
        """Return the change that has just begun or ended a drop."""
        state = self.state
        state.noise.interrupt()
        return DropChange(
            self.kind,
            state.alarm.dropped,
            state.baseline.length,
            since.length,
            since.seconds,
            state.intervals.elapsed - state.alarm.changed,
        )

    def _reset_if_old(self) -> DropChange | None:
        state = self.state
        found, drop, baseline = state.alarm.found, state.alarm.drop, state.baseline
        if found is None or state.intervals.elapsed - found < FROZEN_SECONDS:
            return None
        self.restore(SuddenState())
        return DropChange(self.kind, False, baseline.length, drop.length, drop.seconds, learned_again=True)

    def _learn(self) -> None:
        """Learn from intervals that are old enough."""
        state = self.state
        lag = NORMAL_SPAN if state.alarm.dropped else LAG_SECONDS
        for interval in state.intervals.older_than(lag):
            if state.alarm.dropped or interval.end - interval.seconds < state.learns_from:
                continue
            state.baseline.add(interval, BASELINE_MEMORY)
            state.noise.add(interval.drafts, interval.accepted, exp(-interval.seconds / NOISE_MEMORY))
        if not state.alarm.dropped and self._is_update_due():
            self._update_limits()

    def _is_update_due(self) -> bool:
        intervals = self.state.intervals
        longest = min(LIMITS_SHARE * intervals.drafted, LIMITS_SECONDS)
        return intervals.elapsed >= self._updated + longest or self.policy is not self._updated_for

    def _update_limits(self) -> None:
        """Compute the parameters of the sums."""
        baseline = self.state.baseline
        if not baseline.drafts or self.state.intervals.drafted < self.policy.warm_up:
            return
        self._updated, self._updated_for = self.state.intervals.elapsed, self.policy
        lowest = max(baseline.independent_variance, MIN_VARIANCE)
        longest = MAX_SUM_SECONDS * baseline.drafts_per_second
        uncertainty = 1 + UNCERTAIN_SECONDS / self.state.intervals.drafted
        self.variances = [
            Variance(drafts, max(uncertainty * value, lowest))
            for drafts, value in self.state.noise.variances(longest)
        ]
        self._limits = [self._limits_of(size) for size in SIZES if self.variances]

    def _limits_of(self, size: float) -> DropLimits:
        """Compute them for drops of ``size``; lower the baseline by its standard error."""
        baseline, policy = self.state.baseline, self.policy
        allowance = size * policy.ratio * baseline.length / 2
        error = sqrt(self.variances[0].value / baseline.effective_drafts)
        drafts = baseline.drafts_per_second * policy.false_alarm_period * self.shared_by
        return DropLimits(baseline.mean - allowance - error, min_threshold(self.variances, allowance, drafts))
