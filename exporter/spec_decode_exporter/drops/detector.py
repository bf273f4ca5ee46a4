"""Detector of drops of a count per unit, by cumulative sums (CUSUM; E. S. Page, Biometrika 41, 1954).

A sum of the evidence that units are below their baseline begins a drop when it exceeds its threshold, by the
measured variance of sums of every length. A mirrored sum ends it. The baseline lags behind: a drop is no part
of it. Falls over hours, and those of each night, are for alert rules: Prometheus remembers days.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from math import exp, sqrt
from operator import attrgetter
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.core.numbers import Amount
from spec_decode_exporter.drops.noise import Cusum, Noise, Variance, threshold
from spec_decode_exporter.drops.sums import MOST_STEPS, Drop, DropKind, Intervals, LiveDrop, Sums, Transition

INTERVAL: Final = 5.0  # seconds of an interval, the smallest part that is learned
LAG: Final = 20.0  # age of the newest interval in the baseline, in seconds
MEMORY, NOISE_MEMORY = 1800.0, 4 * 3600.0
"""Memory of the baseline, and of the variances, which need far more units, in seconds with units."""
FROZEN: Final = 1800.0  # seconds of a drop after which the baseline is reset
MAX_SUM_SECONDS: Final = 900.0  # longest sums whose variance counts; the baseline follows slower changes
UNCERTAIN_SECONDS: Final = 600.0
"""History with which a variance is doubled: requests may last longer than the history."""
UNSEEN_REQUESTS: Final = 50.0
"""Requests after which the assumption that some have no draft at all has a quarter of its weight."""
MIN_UNSEEN: Final = 0.03
"""Its least weight: a request without drafts takes more steps, so that chance is not symmetric."""
REQUEST_SECONDS: Final = 60.0
"""Longest time from one request to the next that is assumed, if none is seen to begin."""
LIMITS_SHARE, LIMITS_SECONDS = 1 / 30, 60.0
"""Time between two updates of the limits: a share of the history, up to a minute. An update is slow."""
MIN_SIZE: Final = 1e-6
"""Size of a drop, in counts of a unit, that can be found: steps that hardly draft have nothing to lose."""
MIN_VARIANCE: Final = 0.25
"""Minimum variance of a unit, that of a fair coin: even a drafter without misses may miss one day."""
NORMAL_SECONDS: Final = 30.0  # time with normal units after which a drop is over
NORMAL_SPAN: Final = NORMAL_SECONDS + INTERVAL
"""Age of the oldest of these units, and the lag of the baseline during a drop."""
NORMAL_SHARE: Final = 1 / 4
"""Share of the smaller size by which normal units may be lower, and their maximum standard error."""
MIN_PARTLY: Final = 0.5
"""Share of the time in which some steps have a draft and some have none, if an unknown method searches."""


class DropSettings(NamedTuple):
    """Settings of a kind of drop."""

    kind: DropKind
    counted: Callable[[Sums], float]  # count whose fall is detected, by its units
    sizes: Callable[[Sums, float], tuple[float, float]]
    """Falls of the mean that the two sums find fastest, by baseline and policy; the smaller one first."""


def _accepted_sizes(baseline: Sums, ratio: float) -> tuple[float, float]:
    size = ratio * baseline.length
    return size, 2 * size


def _drafted_sizes(baseline: Sums, ratio: float) -> tuple[float, float]:
    """Return the loss of drafts that costs the share of the tokens per step, and that of all."""
    covered = baseline.drafted / baseline.units
    lost = ratio * baseline.length * baseline.drafted
    return min(covered, lost / baseline.accepted) if baseline.accepted else covered, covered


SUDDEN: Final = DropSettings(DropKind.SUDDEN, attrgetter("accepted"), _accepted_sizes)
DRAFTING: Final = DropSettings(DropKind.DRAFTING, attrgetter("drafted"), _drafted_sizes)
"""Of decode steps: what finds nothing to draft counts no drafts. Those with a draft vary less than tokens."""


class DecodeSteps(NamedTuple):
    """Decode steps of an increment."""

    number: int
    searches: bool  # True if the method is known to search for text
    drafts_always: bool = False
    """True if the method is known to draft in every step; False if it searches or is unknown."""
    requests: int = 0  # requests that began to decode


@dataclass(slots=True)
class DetectorState:
    """Persisted state of a detector. Moments are by ``Intervals.elapsed``."""

    time: Intervals = field(default_factory=Intervals)
    baseline: Sums = field(default_factory=Sums)
    noise: Noise = field(default_factory=Noise)
    requests: Amount = 0.0  # requests whose units the variances are of
    cusums: Annotated[list[Cusum], Field(min_length=2, max_length=2)] = field(
        default_factory=lambda: [Cusum(), Cusum()]
    )
    """One for each size; the first one is mirrored during a drop."""
    found: Amount | None = None  # moment of the detection of the present drop; None without a drop
    drop: Sums = field(default_factory=Sums)  # units since the present drop began
    changed: Amount = 0.0  # most likely moment of the last begin or end of a drop
    learns_from: Amount = 0.0  # earliest begin of an interval to learn from; before it was a drop


class Detector:
    """Detects drops of one kind, by each increment."""

    def __init__(self, settings: DropSettings, policy: DropPolicy) -> None:
        """Detect drops by ``policy``, which may be replaced at any time."""
        self.settings, self.policy = settings, policy
        self.state = DetectorState()
        self.shared_by = 1  # number of detectors that share the policy's budget of false alarms
        self.steps = DecodeSteps(0, searches=True)
        """The newest ones if the units are decode steps, for what is known about their method."""
        self.variances: list[Variance] = []
        """Variances of the relevant sums, the largest n first; empty until enough was observed."""
        self._limits: list[tuple[float, Callable[[], float]]] = []
        """For each size: the counts per unit, m0 - κ, that are no evidence, and the threshold, if needed."""
        self._updated, self._updated_for = 0.0, policy

    @property
    def dropped(self) -> bool | None:
        """True during a drop; None until enough was observed."""
        return self.state.found is not None if self._limits else None

    def restore(self, state: DetectorState) -> None:
        """Continue from a state. Its age is unknown, so the sums are at most half of their thresholds.

        Raises:
            ArithmeticError: Its numbers contradict each other.
        """
        self.state, self.variances, self._limits, self._updated = state, [], [], 0.0
        self._update_limits()
        moments = [state.found or 0.0, state.changed, state.learns_from]
        moments += [each.began for each in state.cusums] + [each.end for each in state.time.held]
        if max(moments) > state.time.elapsed or not (state.found is None or state.drop.units):
            raise ArithmeticError("a moment after the newest one, or a drop without units")
        for cusum, (_, limit) in zip(state.cusums, self._limits or [(0.0, float)] * 2, strict=True):
            cusum.sum = min(cusum.sum, limit() / 2)

    def observe(self, increment: Sums) -> Drop | None:
        """Add an increment; return the drop that it begins or ends."""
        state, since, age = self.state, None, None
        if increment.units > 0 and self._limits:
            since = self._compare(increment, state.time.elapsed)
        state.time.add(increment, INTERVAL)
        if state.time.held and state.time.held[0].end <= state.time.elapsed - LAG:
            self._learn_old()
        since = since or self._end_if_normal()
        if since is not None:
            state.noise.interrupt()
            transition = Transition.ENDED if state.found is None else Transition.BEGAN
            age = state.time.elapsed - state.changed
        elif state.found is not None and state.time.elapsed - state.found >= FROZEN:
            transition, since, age = Transition.LEARNED_AGAIN, state.drop, None
            self.restore(DetectorState())
        else:
            return None
        return Drop(self.settings.kind, transition, state.baseline.length, since.length, since.seconds, age)

    @property
    def recent(self) -> Sums | None:
        """Units that are too new for the baseline; None without any."""
        return self.state.time.newer_than(LAG + INTERVAL)

    def live(self) -> LiveDrop | None:
        """Return the present drop; None without one."""
        state, age = self.state, self.state.time.elapsed - self.state.changed
        if not self.dropped:
            return None
        recent = state.time.newer_than(NORMAL_SPAN) if age >= NORMAL_SPAN else None
        return LiveDrop(state.baseline.length, (recent or state.drop).length, age)

    def error(self, units: float) -> float:
        """Return the standard error of the mean of ``units`` minus that of the baseline."""
        longest = self.variances[0].value
        own = next((each.value for each in reversed(self.variances) if each.length >= units), longest)
        return sqrt(own / units + longest / self.state.baseline.effective)

    def _compare(self, increment: Sums, moment: float) -> Sums | None:
        """Add an increment to the sums; return the units since a drop began or ended with it."""
        state, count = self.state, self.settings.counted(increment)
        steps = [(mean * increment.units - count, limit) for mean, limit in self._limits]
        if state.found is None:
            return self._begin(steps, increment, moment)
        state.drop.add(increment)
        mirrored, (evidence, limit) = state.cusums[0], steps[0]
        if not mirrored.exceeds(-evidence, limit, increment, moment):
            return None
        self._end(moment)
        return mirrored.since

    def _begin(
        self, steps: list[tuple[float, Callable[[], float]]], increment: Sums, moment: float
    ) -> Sums | None:
        """Add the evidence to each sum, with its threshold; one whose units are no drop starts again."""
        state, begun = self.state, None
        for cusum, (evidence, limit) in zip(state.cusums, steps, strict=True):
            if cusum.exceeds(evidence, limit, increment, moment):
                if self._is_drop(cusum.since):
                    begun = cusum
                else:
                    cusum.reset()
        if begun is None:
            return None
        state.found = state.learns_from = moment
        state.drop, state.changed = begun.since, begun.began
        state.cusums = [Cusum(), Cusum()]
        return state.drop

    def _is_drop(self, since: Sums) -> bool:
        """Return whether units are a drop; of steps, if fewer have a draft, without a stall or a pause."""
        baseline, steps = self.state.baseline, self.steps
        if self.settings.kind is DropKind.SUDDEN:
            return True
        if steps.drafts_always:
            if baseline.drafted < MOST_STEPS * baseline.units or since.partly < MIN_PARTLY * since.units:
                return False
        elif not steps.searches and baseline.partly < MIN_PARTLY * baseline.units:
            return False
        return self._mean(since) < (1 - self.policy.ratio) * self._mean(baseline)

    def _end(self, moment: float) -> None:
        """End the drop, which was over at ``moment`` at the latest; the mirrored sum has the moment."""
        state, mirrored = self.state, self.state.cusums[0]
        state.changed = min(mirrored.began, moment) if mirrored.sum else moment
        state.found, state.learns_from = None, moment
        state.cusums = [Cusum(), Cusum()]

    def _end_if_normal(self) -> Sums | None:
        """End the drop if the newest units are enough and normal; return them."""
        state, begin = self.state, self.state.time.elapsed - NORMAL_SPAN
        if state.found is None or not self._limits or begin < state.changed:
            return None
        recent = state.time.newer_than(NORMAL_SPAN)
        if recent is None or recent.seconds < NORMAL_SECONDS:
            return None
        margin = NORMAL_SHARE * self._sizes()[0]
        if self.error(recent.units) > margin or self._mean(recent) < self._mean(state.baseline) - margin:
            return None
        self._end(begin)
        return recent

    def _learn_old(self) -> None:
        """Learn the intervals that are old enough and no part of a drop."""
        state, dropped = self.state, self.state.found is not None
        for interval in state.time.older_than(NORMAL_SPAN if dropped else LAG):
            if not dropped and interval.end - interval.seconds >= state.learns_from:
                state.baseline.add(interval, exp(-interval.seconds / MEMORY))
                kept = exp(-interval.seconds / NOISE_MEMORY)
                state.noise.add(interval.units, self.settings.counted(interval), kept)
                state.requests = kept * state.requests + _requests(interval)
        longest = min(LIMITS_SHARE * state.time.active, LIMITS_SECONDS)
        is_due = state.time.elapsed >= self._updated + longest or self.policy is not self._updated_for
        if is_due and not dropped:
            self._update_limits()

    def _update_limits(self) -> None:
        """Compute the parameters of the sums."""
        baseline, time = self.state.baseline, self.state.time
        if not baseline.units or time.active < self.policy.warm_up:
            return
        self._updated, self._updated_for = time.elapsed, self.policy
        lowest = max(baseline.squares / baseline.units - self._mean(baseline) ** 2, MIN_VARIANCE)
        uncertainty, unseen = 1 + UNCERTAIN_SECONDS / time.active, self._unseen_variance()
        self.variances = [
            Variance(length, max(uncertainty * value + unseen, lowest))
            for length, value in self.state.noise.variances(MAX_SUM_SECONDS * baseline.rate)
        ]
        sizes = self._sizes()
        is_measurable = bool(self.variances) and sizes[0] > MIN_SIZE
        self._limits = [self._limit(size / 2) for size in sizes] if is_measurable else []

    def _unseen_variance(self) -> float:
        """Return the variance per step by requests without any draft, of which chance may have sent none yet.

        A request of n tokens without a draft takes n steps, and falls short of the others by their p drafts
        in each: V = p² n. That some are like that is assumed less and less, the more requests were seen.
        """
        baseline = self.state.baseline
        if self.settings.kind is DropKind.SUDDEN or self.steps.drafts_always:
            return 0.0
        tokens = (baseline.units + baseline.accepted) / _requests(baseline)
        weight = max((UNSEEN_REQUESTS / (UNSEEN_REQUESTS + self.state.requests)) ** 2, MIN_UNSEEN)
        return weight * self._mean(baseline) ** 2 * tokens

    def _limit(self, allowance: float) -> tuple[float, Callable[[], float]]:
        """Compute the limits for drops of twice the allowance; lower the baseline by its standard error."""
        baseline = self.state.baseline
        error = sqrt(self.variances[0].value / baseline.effective)
        units = baseline.rate * self.policy.false_alarm_period * self.shared_by
        limit = cache(partial(threshold, self.variances, allowance, units))
        return self._mean(baseline) - allowance - error, limit

    def _mean(self, sums: Sums) -> float:
        return self.settings.counted(sums) / sums.units

    def _sizes(self) -> tuple[float, float]:
        return self.settings.sizes(self.state.baseline, self.policy.ratio)


def _requests(sums: Sums) -> float:
    """Return the requests that began, or the fewest that can be assumed."""
    return max(sums.requests, sums.seconds / REQUEST_SECONDS)
