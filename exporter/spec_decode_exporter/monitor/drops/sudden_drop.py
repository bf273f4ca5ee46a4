"""Sudden drops: cumulative sums over the increments, against a baseline of about the last half hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.drops.baseline import Baseline
from spec_decode_exporter.analysis.drops.cusum import Cusum, least_threshold
from spec_decode_exporter.analysis.drops.drop import Alarm, DropChange, DropKind, DropStep
from spec_decode_exporter.analysis.drops.interval import Amount, Interval, IntervalSplitter
from spec_decode_exporter.analysis.drops.noise import Noise, Variance
from spec_decode_exporter.config.policy import DropPolicy

INTERVAL_SECONDS: Final = 5.0
LAG_SECONDS: Final = 20.0
"""The baseline is learnt from what is older, so that a drop does not hide in it."""
BASELINE_MEMORY: Final = 1800.0
NOISE_MEMORY: Final = 4 * 3600.0
"""A variance needs far more drafts than a mean to be known as well."""
LONGEST_SUM: Final = 900.0
"""In seconds; the baseline follows what is slower than that."""
UNSURE_SECONDS: Final = 600.0
"""A variance from so short a history is taken twice, one from twice as long 1.5 times, and so on: requests
may last longer than the engine was watched, and then nothing shows yet how much they differ."""
FROZEN_SECONDS: Final = 1800.0
"""After so long, a drop is what is usual now."""
LEAST_VARIANCE: Final = 0.25
"""Of a draft: that of one fair coin. An engine that never misses a token may still miss one some day."""
SIZES: Final = (1, 2)
"""The drops that the sums find fastest, in units of the policy's: a large one is found sooner by the second.
The false alarms of one are mostly those of the other too, and both are rarer than the formula has them."""


class DropLimits(NamedTuple):
    """What one sum is held against."""

    accepted: float
    """Per draft, m0 - κ: what is below that speaks for a drop."""
    threshold: float


@dataclass(slots=True)
class SuddenState:
    """Everything that is remembered."""

    stretches: IntervalSplitter = field(default_factory=IntervalSplitter)
    baseline: Baseline = field(default_factory=Baseline)
    noise: Noise = field(default_factory=Noise)
    alarm: Alarm = field(default_factory=lambda: Alarm([Cusum() for _ in SIZES]))
    """With one sum for each of ``SIZES``."""
    learns_from: Amount = 0.0
    """Nothing is learnt from what began before this, by ``Stretches.elapsed``: it was a drop."""


class SuddenDropDetector:
    """Watches for sudden drops."""

    def __init__(self, policy: DropPolicy) -> None:
        """Watch by a policy, which may be replaced at any time; it takes effect within seconds."""
        self.policy = policy
        self.state = SuddenState()
        self.variances: list[Variance] = []
        """Of the sums that matter, longest first; none until enough was seen to judge by."""
        self._limits: list[DropLimits] = []

    @property
    def dropped(self) -> bool | None:
        """Whether there is a drop; None as long as too little was seen to judge by."""
        return self.state.alarm.dropped if self._limits else None

    def observe(self, increment: Interval) -> DropChange | None:
        """Take an increment; return the drop that it begins or ends."""
        state = self.state
        change = self._evaluator(increment) if increment.drafts > 0 and self._limits else None
        state.stretches.add(increment, INTERVAL_SECONDS)
        if state.stretches.held and state.stretches.held[0].end <= state.stretches.elapsed - LAG_SECONDS:
            self._learn()
        return change or self._grown_old()

    def restore(self, state: SuddenState) -> None:
        """Go on from a state. Its age is not known, so the sums keep at most half of what it takes."""
        self.state, self.variances, self._limits = state, [], []
        self._renew()
        thresholds = [limit.threshold for limit in self._limits]
        state.alarm.halve(thresholds or [0.0] * len(SIZES))

    def _evaluator(self, increment: Interval) -> DropChange | None:
        state, drafts, accepted = self.state, increment.drafts, increment.accepted
        steps = [DropStep(usual * drafts - accepted, threshold) for usual, threshold in self._limits]
        since = state.alarm.observe(steps, increment, state.stretches.elapsed)
        if not since:
            return None
        state.noise.interrupt()
        state.learns_from = state.stretches.elapsed
        return DropChange(
            DropKind.SUDDEN, state.alarm.dropped, state.baseline.length, since.length, since.seconds
        )

    def _grown_old(self) -> DropChange | None:
        state = self.state
        found, drop, usual = state.alarm.found, state.alarm.drop, state.baseline
        if found is None or state.stretches.elapsed - found < FROZEN_SECONDS:
            return None
        self.restore(SuddenState())
        return DropChange(DropKind.SUDDEN, False, usual.length, drop.length, drop.seconds, learned_again=True)

    def _learn(self) -> None:
        state = self.state
        for one in state.stretches.older_than(LAG_SECONDS):
            if state.alarm.dropped or one.end - one.seconds < state.learns_from:
                continue
            state.baseline.add(one, BASELINE_MEMORY)
            state.noise.add(one.drafts, one.accepted, exp(-one.seconds / NOISE_MEMORY))
        if not state.alarm.dropped:
            self._renew()

    def _renew(self) -> None:
        """Work out what the sums are held against."""
        baseline = self.state.baseline
        if not baseline.drafts or self.state.stretches.drafted < self.policy.warm_up:
            return
        least = max(baseline.independent_variance, LEAST_VARIANCE)
        longest = LONGEST_SUM * baseline.drafts_per_second
        unsure = 1 + UNSURE_SECONDS / self.state.stretches.drafted
        self.variances = [
            Variance(drafts, max(unsure * value, least))
            for drafts, value in self.state.noise.variances(longest)
        ]
        self._limits = [self._limits_of(size) for size in SIZES if self.variances]

    def _limits_of(self, size: float) -> DropLimits:
        """Work them out for a drop of ``size``; the baseline is taken as lower by once its standard error."""
        baseline, policy = self.state.baseline, self.policy
        allowance = size * policy.ratio * baseline.length / 2
        error = sqrt(self.variances[0].value / baseline.effective_drafts)
        drafts = baseline.drafts_per_second * policy.false_alarm_period
        return DropLimits(
            baseline.mean - allowance - error, least_threshold(self.variances, allowance, drafts)
        )
