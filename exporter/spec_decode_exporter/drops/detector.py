"""Detectors of drops of the tokens per unit, a draft or a decode step, by cumulative sums (CUSUM).

A sum of the evidence that units are below their baseline begins a drop when it exceeds its threshold. During
a drop the same sum, mirrored, ends it (E. S. Page, Biometrika 41, 1954). The baseline lags behind, so that a
drop is not part of its own baseline. Kinds of drops differ in settings and evidence:

- sudden: each increment, in tokens, against thresholds by the measured variance of sums of every length;
- drafting: the same with decode steps as units, since a drafter that finds nothing to draft counts no drafts;
- slow: each interval of ten minutes, in standard deviations, below the last hours and below the same hour of
  the days before, since traffic changes with the hour.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, sqrt
from typing import Annotated, ClassVar, Final, NamedTuple, TypeAlias

from pydantic import Field

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.core.numbers import Amount
from spec_decode_exporter.drops.hours import (
    HOURS,
    MAX_FALLS,
    Falls,
    HourCell,
    HourCells,
    earlier_fall,
    fall_of,
    learn_hour,
    usual_length,
)
from spec_decode_exporter.drops.noise import Cusum, Noise, Shortfalls, Variance, threshold
from spec_decode_exporter.drops.sums import MOST_STEPS, Drop, DropKind, Intervals, LiveDrop, Sums, Transition


class DropSettings(NamedTuple):
    """Settings of a kind of drop. Times are in seconds; memories count time with units only."""

    interval: float
    """Length of an interval, the smallest part that is learned."""
    lag: float
    """Age of the newest interval in the baseline."""
    memory: float
    noise_memory: float
    """Memory of the variances: they need far more units than the baseline's mean."""
    lengths: tuple[int, ...]
    """Lengths of the sums whose variance is measured: in units, or in intervals of a slow drop."""
    frozen: float
    """Duration of a drop after which the baseline is reset."""


SUDDEN: Final = DropSettings(5.0, 20.0, 1800.0, 4 * 3600.0, tuple(32 << power for power in range(14)), 1800.0)
SLOW: Final = DropSettings(600.0, 3600.0, 8 * 3600.0, 3 * 86_400.0, (1, 2, 4), 8 * 3600.0)

SIZES: Final = 2
"""Sizes of drops, each with its sum."""
MAX_SUM_SECONDS: Final = 900.0
"""Longest sums whose variance counts; the baseline follows slower changes."""
UNCERTAIN_SECONDS: Final = 600.0
"""History with which a variance is doubled: requests may last longer than the history."""
LIMITS_SHARE, LIMITS_SECONDS = 1 / 30, 60.0
"""Time between two updates of the limits: a share of the history, up to a minute. An update is slow."""
MIN_SIZE: Final = 1e-6
"""Size of a drop, in tokens of a unit, that can be found: steps that hardly draft have nothing to lose."""
MIN_VARIANCE: Final = 0.25
"""Minimum variance of a draft: that of a fair coin. Even a drafter without misses may miss one day."""
NORMAL_SECONDS: Final = 30.0
"""Time with normal drafts after which a sudden drop is over."""
NORMAL_SPAN: Final = NORMAL_SECONDS + SUDDEN.interval
"""Age of the oldest of these drafts, and the lag of the baseline during a drop."""
NORMAL_SHARE: Final = 1 / 4
"""Share of the policy's drop by which normal drafts may be lower, and their maximum standard error."""
MIN_PARTLY: Final = 0.5
"""Share of the time in which some steps have a draft and some have none, if an unknown method searches."""

MIN_BASELINE_SECONDS: Final = 2400.0
"""Weighted seconds of a slow baseline: with less, its own variation would be a drop."""
SLOW_ALLOWANCE, SLOW_THRESHOLD = 0.5, 7.0
"""In standard deviations of an interval."""
FIRST_ALLOWANCE, FIRST_THRESHOLD = 1.0, 9.0
"""The minima as long as the hour has no day before: a daily mix alone changes the length by 2 % an hour."""
MIN_DEVIATION: Final = 1 / 3
"""Minimum standard deviation, as a share of the policy's drop: the measured one may be nearly 0."""

DropStep: TypeAlias = tuple[float, float]
"""Evidence of a drop that an increment adds to a cumulative sum, and the sum's threshold."""
Cusums = Annotated[list[Cusum], Field(min_length=SIZES, max_length=SIZES)]


@dataclass(slots=True)
class DetectorState:
    """Persisted state of a detector. Moments are by ``Intervals.elapsed``."""

    time: Intervals = field(default_factory=Intervals)
    baseline: Sums = field(default_factory=Sums)
    noise: Noise = field(default_factory=Noise)
    cusums: Cusums = field(default_factory=lambda: [Cusum() for _ in range(SIZES)])
    """One for each of ``SIZES``; a slow drop has only the first."""
    found: Amount | None = None
    """Moment of the detection of the present drop; None without a drop."""
    drop: Sums = field(default_factory=Sums)
    """Units since the present drop began."""
    changed: Amount = 0.0
    """Most likely moment of the last begin or end of a drop."""
    learns_from: Amount = 0.0
    """Earliest begin of an interval to learn from; before it was a drop."""
    falls: Falls = field(default_factory=list)
    """Begun drops, expected ones too, oldest first."""
    hours: HourCells = field(default_factory=lambda: [HourCell()] * HOURS)
    shortfalls: Shortfalls = field(default_factory=Shortfalls)


class Detector(ABC):
    """Detects drops of one kind: subclasses weigh the evidence and set thresholds."""

    kind: ClassVar[DropKind]
    settings: ClassVar[DropSettings]

    def __init__(self, policy: DropPolicy) -> None:
        """Use ``policy``, which may be replaced at any time."""
        self.policy = policy
        self.state = DetectorState()

    @property
    def dropped(self) -> bool | None:
        """True during a drop; None until enough was observed."""
        return self.state.found is not None if self._thresholds() else None

    def restore(self, state: DetectorState) -> None:
        """Continue from a state. Its age is unknown, so the sums are at most half of their thresholds."""
        self.state = state
        moments = [state.found or 0.0, state.changed, state.learns_from]
        moments += [each.began for each in state.cusums] + [each.end for each in state.time.held]
        if max(moments) > state.time.elapsed or not (state.found is None or state.drop.units):
            raise ArithmeticError("a moment after the newest one, or a drop without units")
        for cusum, limit in zip(state.cusums, [*self._thresholds(), 0.0, 0.0], strict=False):
            cusum.sum = min(cusum.sum, limit / 2)

    @abstractmethod
    def _thresholds(self) -> Sequence[float]:
        """Return the thresholds of the sums; empty until enough was observed."""

    def _counted(self, sums: Sums) -> float:
        """Return the count whose fall is detected: accepted tokens."""
        return sums.accepted

    def _is_drop(self, since: Sums) -> bool:  # noqa: ARG002 - ``DraftingDetector`` reads it
        """Return whether units whose sum exceeds its threshold are a drop."""
        return True

    def _learn(self, interval: Sums, length: float) -> None:
        """Add an interval that is old enough and no part of a drop; ``length`` is as in the settings."""
        settings = self.settings
        self.state.baseline.add(interval, exp(-interval.seconds / settings.memory))
        kept = exp(-interval.seconds / settings.noise_memory)
        part = length, interval.units, self._counted(interval)
        self.state.noise.add(part, settings.lengths, kept)

    def _compare(self, steps: Sequence[DropStep], increment: Sums, moment: float) -> Sums | None:
        """Add an increment to the sums; return the units since a drop began or ended with it."""
        state = self.state
        if state.found is None:
            return self._begin(steps, increment, moment)
        state.drop.add(increment)
        mirrored, (evidence, limit) = state.cusums[0], steps[0]
        if not mirrored.exceeds(-evidence, limit, increment, moment):
            return None
        since = mirrored.since
        self._end(moment)
        return since

    def _begin(self, steps: Sequence[DropStep], increment: Sums, moment: float) -> Sums | None:
        """Add an increment to each sum; one whose units are no drop starts again."""
        state, begun = self.state, None
        for cusum, step in zip(state.cusums, steps, strict=False):
            if cusum.exceeds(*step, increment, moment):
                if self._is_drop(cusum.since):
                    begun = cusum
                else:
                    cusum.reset()
        if begun is None:
            return None
        state.found = state.learns_from = moment
        state.drop, state.changed = begun.since, begun.began
        state.cusums = [Cusum() for _ in range(SIZES)]
        return state.drop

    def _end(self, moment: float) -> None:
        """End the drop, which was over at ``moment`` at the latest; the mirrored sum has the moment."""
        state, mirrored = self.state, self.state.cusums[0]
        if state.falls:
            state.falls[-1] = state.falls[-1].lasted(state.drop)
        state.changed = min(mirrored.began, moment) if mirrored.sum else moment
        state.found, state.learns_from = None, moment
        state.cusums = [Cusum() for _ in range(SIZES)]

    def _changed(self, since: Sums, baseline_length: float, age: float | None = None) -> Drop:
        """Return the drop that has just begun or ended; one that is regular traffic ends at once."""
        state = self.state
        state.noise.interrupt()
        transition = Transition.ENDED if state.found is None else Transition.BEGAN
        drop = Drop(self.kind, transition, baseline_length, since.length, since.seconds, age)
        if state.found is None or not since.wall:
            return drop
        fall = fall_of(since, since.seconds if age is None else age)
        earlier = earlier_fall(state.falls, fall, self._tolerance(since, baseline_length))
        state.falls = [*state.falls, fall][-MAX_FALLS:]
        if earlier is None:
            return drop
        self._expect()
        return replace(drop, transition=Transition.EXPECTED, earlier=earlier.began)

    def _tolerance(self, since: Sums, baseline_length: float) -> float:  # noqa: ARG002
        """Return the tokens by which the units of a regular fall may be lower than an earlier day's."""
        return self.policy.ratio / 2 * baseline_length

    def _learn_again_if_old(self) -> Drop | None:
        """Reset the baseline if the drop lasts too long."""
        state, drop, baseline = self.state, self.state.drop, self.state.baseline
        if state.found is None or state.time.elapsed - state.found < self.settings.frozen:
            return None
        if state.falls:
            state.falls[-1] = state.falls[-1].lasted(drop)
        self._forget()
        return Drop(self.kind, Transition.LEARNED_AGAIN, baseline.length, drop.length, drop.seconds)

    def _expect(self) -> None:
        """End the present drop, since it is regular traffic."""
        self._forget()

    def _forget(self) -> None:
        self.restore(DetectorState(falls=self.state.falls))


class SuddenDetector(Detector):
    """Detects sudden drops, by each increment; 30 seconds of normal drafts end one, too."""

    kind = DropKind.SUDDEN
    settings = SUDDEN
    warm_up = 0.0
    """Minimum history in seconds, besides the policy's."""

    def __init__(self, policy: DropPolicy) -> None:
        super().__init__(policy)
        self.shared_by = 1
        """Number of detectors that share the policy's budget of false alarms."""
        self.variances: list[Variance] = []
        """Variances of the relevant sums, the largest n first; empty until enough was observed."""
        self._limits: list[tuple[float, float]] = []
        """For each of ``SIZES``: the tokens per unit, m0 - κ, that are no evidence, and the threshold."""
        self._updated = 0.0
        self._updated_for = policy

    def _expect(self) -> None:
        self.restore(DetectorState(noise=self.state.noise, falls=self.state.falls))

    def observe(self, increment: Sums) -> Drop | None:
        """Add an increment; return the drop that it begins or ends."""
        state, since = self.state, None
        if increment.units > 0 and self._limits:
            count = self._counted(increment)
            steps = [(mean * increment.units - count, limit) for mean, limit in self._limits]
            since = self._compare(steps, increment, state.time.elapsed)
        state.time.add(increment, self.settings.interval)
        if state.time.held and state.time.held[0].end <= state.time.elapsed - self.settings.lag:
            self._learn_old()
        since = since or self._end_if_normal()
        if since is None:
            return self._learn_again_if_old()
        return self._changed(since, state.baseline.length, state.time.elapsed - state.changed)

    def live(self) -> LiveDrop | None:
        """Return the present drop; None without one."""
        state, age = self.state, self.state.time.elapsed - self.state.changed
        if not self.dropped:
            return None
        recent = state.time.newer_than(NORMAL_SPAN) if age >= NORMAL_SPAN else None
        return LiveDrop(state.baseline.length, (recent or state.drop).length, age)

    def _tolerance(self, since: Sums, baseline_length: float) -> float:
        return max(super()._tolerance(since, baseline_length), self.error(since.units))

    def error(self, units: float) -> float:
        """Return the standard error of the length of ``units`` minus that of the baseline."""
        longest = self.variances[0].value
        own = next((each.value for each in reversed(self.variances) if each.length >= units), longest)
        return sqrt(own / units + longest / self.state.baseline.effective)

    def restore(self, state: DetectorState) -> None:
        """Continue from a state: see ``Detector``."""
        self.state, self.variances, self._limits, self._updated = state, [], [], 0.0
        self._update_limits()
        super().restore(state)

    def _thresholds(self) -> Sequence[float]:
        return [limit for _, limit in self._limits]

    def _learn_old(self) -> None:
        state, dropped = self.state, self.state.found is not None
        for interval in state.time.older_than(NORMAL_SPAN if dropped else self.settings.lag):
            if not dropped and interval.end - interval.seconds >= state.learns_from:
                self._learn(interval, interval.units)
        longest = min(LIMITS_SHARE * state.time.active, LIMITS_SECONDS)
        is_due = state.time.elapsed >= self._updated + longest or self.policy is not self._updated_for
        if is_due and not dropped:
            self._update_limits()

    def _end_if_normal(self) -> Sums | None:
        """End the drop if the newest drafts are enough and normal; return them."""
        state, begin = self.state, self.state.time.elapsed - NORMAL_SPAN
        if state.found is None or not self._limits or begin < state.changed:
            return None
        recent = state.time.newer_than(NORMAL_SPAN)
        if recent is None or recent.seconds < NORMAL_SECONDS:
            return None
        margin = NORMAL_SHARE * self._sizes()[0]
        lowest = self._mean(state.baseline) - margin
        if self.error(recent.units) > margin or self._mean(recent) < lowest:
            return None
        self._end(begin)
        return recent

    def _update_limits(self) -> None:
        """Compute the parameters of the sums."""
        baseline, time = self.state.baseline, self.state.time
        if not baseline.units or time.active < max(self.policy.warm_up, self.warm_up):
            return
        self._updated, self._updated_for = time.elapsed, self.policy
        lowest = max(self._least_variance(), MIN_VARIANCE)
        uncertainty = 1 + UNCERTAIN_SECONDS / time.active
        measured = self.state.noise.variances(self.settings.lengths, MAX_SUM_SECONDS * baseline.rate)
        self.variances = [Variance(length, max(uncertainty * value, lowest)) for length, value in measured]
        sizes = self._sizes()
        is_measurable = bool(self.variances) and sizes[0] > MIN_SIZE
        self._limits = [self._limit(size / 2) for size in sizes] if is_measurable else []

    def _limit(self, allowance: float) -> tuple[float, float]:
        """Compute the limits for drops of twice the allowance; lower the baseline by its standard error."""
        baseline = self.state.baseline
        error = sqrt(self.variances[0].value / baseline.effective)
        units = baseline.rate * self.policy.false_alarm_period * self.shared_by
        return self._mean(baseline) - allowance - error, threshold(self.variances, allowance, units)

    def _mean(self, sums: Sums) -> float:
        return self._counted(sums) / sums.units

    def _sizes(self) -> tuple[float, float]:
        """Return the sizes of drops that the sums detect fastest, per unit: the second finds large ones."""
        size = self.policy.ratio * self.state.baseline.length
        return size, 2 * size

    def _least_variance(self) -> float:
        """Return the variance of independent units."""
        baseline = self.state.baseline
        return baseline.squares / baseline.units - baseline.mean**2


class DraftingDetector(SuddenDetector):
    """Detects that fewer decode steps have a draft."""

    kind = DropKind.DRAFTING
    warm_up = UNCERTAIN_SECONDS  # a few requests have all or no steps with a draft
    searches = True
    """True if the method is known to search for text."""
    drafts_always = False
    """True if the method is known to draft in every step."""

    def _counted(self, sums: Sums) -> float:
        """Return the steps with a draft: they vary less than the accepted tokens, which are unequal too."""
        return sums.drafted

    def _sizes(self) -> tuple[float, float]:
        """Return the loss of drafts that costs the policy's share of tokens per step, and that of all."""
        baseline = self.state.baseline
        covered = self._mean(baseline)
        lost = self.policy.ratio * baseline.length * baseline.drafted
        return min(covered, lost / baseline.accepted) if baseline.accepted else covered, covered

    def _least_variance(self) -> float:
        return 0.0

    def _is_drop(self, since: Sums) -> bool:
        """Return whether fewer steps have a draft; drafts that are accepted less are a sudden drop."""
        baseline = self.state.baseline
        if self.drafts_always:
            if baseline.drafted < MOST_STEPS * baseline.units or since.partly < MIN_PARTLY * since.units:
                return False
        elif not self.searches and baseline.partly < MIN_PARTLY * baseline.units:
            return False
        return since.drafted / since.units < (1 - self.policy.ratio) * baseline.drafted / baseline.units


class SlowDetector(Detector):
    """Detects slow drops, by each interval."""

    kind = DropKind.SLOW
    settings = SLOW

    def observe(self, increment: Sums) -> Drop | None:
        """Add an increment; return the drop that it begins or ends."""
        interval = self.state.time.add(increment, self.settings.interval)
        return (self._add_interval(interval) if interval else None) or self._learn_again_if_old()

    def _thresholds(self) -> Sequence[float]:
        enough = self.state.baseline.seconds >= MIN_BASELINE_SECONDS and self._variance() is not None
        return [SLOW_THRESHOLD] if enough else []

    def _add_interval(self, interval: Sums) -> Drop | None:
        """Compare a complete interval with the lower of the last hours and the days before."""
        state = self.state
        self._learn_old()
        usual = usual_length(state.hours, interval)
        if usual is None and state.found is not None:  # else a false drop would hide its hours the next day
            learn_hour(state.hours, interval)
        if not self._thresholds():
            return None
        expected = min(state.baseline.length, usual or inf)
        if usual is not None:
            kept = exp(-interval.seconds / self.settings.noise_memory)
            state.shortfalls.add(interval.length / expected - 1, kept)
        step = self._step(interval, expected, is_first_day=usual is None)
        since = self._compare([step], interval, state.time.elapsed)
        if since is None:
            return None
        drop = self._changed(since, expected)
        if drop.transition is not Transition.EXPECTED:
            state.time.held.clear()  # the last hour belongs to the drop, not to the baseline
        return drop

    def _step(self, interval: Sums, expected: float, *, is_first_day: bool) -> DropStep:
        """Return the evidence that an interval is below the expected length, in standard deviations."""
        baseline = self.state.baseline
        least = MIN_DEVIATION * self.policy.ratio * baseline.length
        chance = sqrt((self._variance() or 0.0) * (1 / interval.units + 1 / baseline.effective))
        deviation = max(chance, sqrt(self.state.shortfalls.variance) * baseline.length, least)
        floor = least / deviation if is_first_day else 0.0
        allowance = max(SLOW_ALLOWANCE, FIRST_ALLOWANCE * floor)
        limit = max(SLOW_THRESHOLD, FIRST_THRESHOLD * floor)
        return (expected - interval.length) / deviation - allowance, limit

    def _expect(self) -> None:
        self.state.found = None

    def _variance(self) -> float | None:
        """Return the largest variance of a sum of intervals, per unit; None until enough was observed."""
        variances = self.state.noise.variances(self.settings.lengths, inf)
        return max((each.value for each in variances), default=None)

    def _learn_old(self) -> None:
        for interval in self.state.time.older_than(self.settings.lag):
            if self.state.found is None:
                self._learn(interval, 1)
                learn_hour(self.state.hours, interval)

    def _forget(self) -> None:
        """Reset the baseline; what was learned about hours and noise stays. What lasts is no regular fall."""
        state = self.state
        state.noise.interrupt()
        self.state = DetectorState(
            noise=state.noise, falls=state.falls[:-1], hours=state.hours, shortfalls=state.shortfalls
        )
