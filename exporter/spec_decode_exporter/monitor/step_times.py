"""Measured cost of a draft token: step times of an engine with and without drafts.

An engine does not draft if its schedule has no drafts at some batch sizes (vLLM's
``num_speculative_tokens_per_batch_size``), or after a restart without speculation. With t1 and t0 the time of
a decode step with and without drafts at the same load, and with S steps and T draft tokens while drafting,

    t1 / t0 = 1 + c0 + c·T/S

The steps without drafts may also be those of the baseline of an experiment, which serves the same model.

One measurement does not determine both c0 and c. So c0 is given in draft tokens, typical of the method. The
measured sum c0 + c·T/S is exact for any split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp2, log2
from typing import Final

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Increment

PLAIN_SECONDS: Final = 10.0
"""Seconds without drafts under load that count as plain; shorter pauses are of single requests."""
MIN_STEPS: Final = 1000
"""Steps of the whole batch that either side needs. The time of a step varies by about 30 %, mostly by
prefills; the error of t1/t0 is then 1.3 %."""
HALF_LIFE_SECONDS: Final = 12 * 3600.0
"""Half-life of the weights: requests are longer at night, and ten minutes of 30 steps per second suffice for
two days."""
_PER_DOUBLING: Final = 2
"""Buckets of loads per doubling: loads within a factor of √2 are one."""
_MAX_REQUESTS: Final = 2.0**16


class _Steps:
    """Weighted sums of steps at one load; older steps have less weight."""

    __slots__ = ("_draft_tokens", "_moment", "_nanoseconds", "_requests", "_steps")

    def __init__(self) -> None:
        self._nanoseconds = 0.0
        self._steps = 0.0
        self._draft_tokens = 0.0
        self._requests = 0.0
        self._moment = 0.0

    def add(self, increment: Increment, running_requests: float) -> None:
        kept = self._kept(increment.end)
        counters = increment.counters
        steps = counters[Counter.DECODE_STEPS]
        self._nanoseconds = self._nanoseconds * kept + counters[Counter.DECODE_NANOSECONDS]
        self._steps = self._steps * kept + steps
        self._draft_tokens = self._draft_tokens * kept + counters[Counter.DRAFT_TOKENS]
        self._requests = self._requests * kept + steps * running_requests
        self._moment = increment.end

    def merge(self, other: _Steps, now: float) -> None:
        """Add the steps of another engine."""
        own, its = self._kept(now), other._kept(now)
        self._nanoseconds = self._nanoseconds * own + other._nanoseconds * its
        self._steps = self._steps * own + other._steps * its
        self._draft_tokens = self._draft_tokens * own + other._draft_tokens * its
        self._requests = self._requests * own + other._requests * its
        self._moment = now

    def batches(self, now: float) -> float:
        """Return the approximate steps of the whole batch; the sums count each of its requests."""
        return self._kept(now) * (ratio(self._steps, self.load) or 0.0)

    @property
    def load(self) -> float:
        """Mean running requests over the steps."""
        return ratio(self._requests, self._steps) or 0.0

    @property
    def nanoseconds(self) -> float | None:
        """Mean time of a step."""
        return ratio(self._nanoseconds, self._steps)

    @property
    def draft_tokens(self) -> float:
        """Mean draft tokens of a step."""
        return ratio(self._draft_tokens, self._steps) or 0.0

    def _kept(self, now: float) -> float:
        return exp2((self._moment - now) / HALF_LIFE_SECONDS)


def _bucket(running_requests: float) -> int:
    return round(_PER_DOUBLING * log2(min(max(running_requests, 1.0), _MAX_REQUESTS)))


class StepTimes:
    """Times of decode steps with and without drafts, by load."""

    def __init__(self) -> None:
        self._drafting: defaultdict[int, _Steps] = defaultdict(_Steps)
        self._plain: defaultdict[int, _Steps] = defaultdict(_Steps)
        self._pause: list[tuple[Increment, float]] = []
        self._pause_seconds = 0.0
        self._now = 0.0

    def observe(self, increment: Increment, running_requests: float | None, *, plain: bool = True) -> None:
        """Add the increment of two polls, and the load at its end.

        Args:
            increment: Increment of an engine with known decode steps that are not counted by tokens.
            running_requests: Load at its end.
            plain: Whether a step without drafts costs as much as a plain step: see
                ``undrafted_steps_are_plain``.
        """
        self._now = increment.end
        running = running_requests or 0.0
        if increment.counters[Counter.DRAFTS]:
            self._end_pause()
            _add(self._drafting, increment, running)
        elif plain and increment.counters[Counter.DECODE_STEPS]:
            self._take_undrafted(increment, running)

    def forget_drafting(self) -> None:
        """Reset the steps with drafts after a change of the method or its models; keep the plain ones."""
        self._drafting.clear()

    def costs(
        self, fixed_tokens: float = 0.0, baseline: Sequence[StepTimes] = ()
    ) -> tuple[MeasuredCost, ...]:
        """Return c at every load with enough steps with and without drafts, ascending by load.

        The load is the mean while drafting. c is 0 if steps with drafts take no longer than those without.

        Args:
            fixed_tokens: c0 in draft tokens.
            baseline: Engines whose steps without drafts are used if this engine has too few.
        """
        costs = (self._cost(bucket, fixed_tokens, baseline) for bucket in sorted(self._drafting))
        return tuple(cost for cost in costs if cost is not None)

    def _cost(self, bucket: int, fixed_tokens: float, baseline: Sequence[StepTimes]) -> MeasuredCost | None:
        drafting, own = self._drafting[bucket], self._plain.get(bucket, _Steps())
        cost = _cost(drafting, own, fixed_tokens, self._now)
        if cost is not None or not baseline:
            return cost
        return _cost(drafting, _merged(bucket, baseline, self._now), fixed_tokens, self._now)

    def plain(self, bucket: int) -> _Steps | None:
        """Return the steps without drafts at one load; None without any."""
        return self._plain.get(bucket)

    def _take_undrafted(self, increment: Increment, running: float) -> None:
        """Hold steps without drafts until there are enough in a row."""
        self._pause_seconds += increment.end - increment.begin
        self._pause.append((increment, running))
        if self._pause_seconds >= PLAIN_SECONDS:
            for each, load in self._pause:
                _add(self._plain, each, load)
            self._pause.clear()

    def _end_pause(self) -> None:
        self._pause.clear()
        self._pause_seconds = 0.0


def _add(side: defaultdict[int, _Steps], increment: Increment, running: float) -> None:
    """Add steps at a load; without running requests at the end the load is unknown."""
    if running > 0:
        side[_bucket(running)].add(increment, running)


def _merged(bucket: int, engines: Sequence[StepTimes], now: float) -> _Steps:
    """Return the steps without drafts of several engines at one load."""
    merged = _Steps()
    for engine in engines:
        steps = engine.plain(bucket)
        if steps is not None:
            merged.merge(steps, now)
    return merged


def _cost(drafting: _Steps, plain: _Steps, fixed_tokens: float, now: float) -> MeasuredCost | None:
    longer = ratio(drafting.nanoseconds, plain.nanoseconds)
    drafted = fixed_tokens + drafting.draft_tokens
    if longer is None or not drafted or min(drafting.batches(now), plain.batches(now)) < MIN_STEPS:
        return None
    ratio_ = max(0.0, longer - 1) / drafted
    return MeasuredCost(drafting.load, ratio_, 0.9 * ratio_, 1.1 * ratio_, CostSource.MEASURED)
