"""What a draft token costs on this very engine: its step time while it drafted against while it did not.

An engine does not draft where it is scheduled not to at some batch sizes (vLLM's
``num_speculative_tokens_per_batch_size``), or after a restart without speculation. With t1 and t0 the time of
a decode step with and without drafts at the same load, and with S steps and T draft tokens while drafting,

    t1 / t0 = 1 + c0 + c·T/S

The other side may also be other engines: those of the baseline of an experiment, which serve the same model.

Two figures cannot be had from one. So c0 is given in draft tokens, as what is usual for the method; what is
measured, c0 + c·T/S, is exact whatever the split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp2, log2
from typing import Final

from spec_decode_exporter.config.cost_settings import LoadCost
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Increment

PLAIN_SECONDS: Final = 10.0
"""An engine does not draft once it has not for so long under load. Shorter pauses are of a few requests."""
LEAST_STEPS: Final = 1000
"""Steps of the whole batch that either side needs. The time of one varies by some 30 %, mostly by prefills
between: 1.3 % of t1/t0 then."""
HALF_LIFE_SECONDS: Final = 12 * 3600.0
"""After so long, what was seen counts for half: requests are longer at night, and ten minutes of 30 steps a
second are enough for two days."""
_PER_DOUBLING: Final = 2
"""Loads within a factor of √2 are one load."""
_MOST_REQUESTS: Final = 2.0**16


class _Steps:
    """Steps at one load, the older ones counting for less."""

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
        """Take in what another engine did."""
        mine, its = self._kept(now), other._kept(now)
        self._nanoseconds = self._nanoseconds * mine + other._nanoseconds * its
        self._steps = self._steps * mine + other._steps * its
        self._draft_tokens = self._draft_tokens * mine + other._draft_tokens * its
        self._requests = self._requests * mine + other._requests * its
        self._moment = now

    def batches(self, now: float) -> float:
        """Return about how many steps of the whole batch these are; each request in it counts one."""
        return self._kept(now) * (ratio(self._steps, self.load) or 0.0)

    @property
    def load(self) -> float:
        """The mean of the running requests over the steps."""
        return ratio(self._requests, self._steps) or 0.0

    @property
    def nanoseconds(self) -> float | None:
        """The mean time of a step."""
        return ratio(self._nanoseconds, self._steps)

    @property
    def draft_tokens(self) -> float:
        """The mean draft tokens of a step."""
        return ratio(self._draft_tokens, self._steps) or 0.0

    def _kept(self, now: float) -> float:
        return exp2((self._moment - now) / HALF_LIFE_SECONDS)


def _bucket(running_requests: float) -> int:
    return round(_PER_DOUBLING * log2(min(max(running_requests, 1.0), _MOST_REQUESTS)))


class StepTimes:
    """Remembers, by load, how long decode steps took with drafts and without."""

    def __init__(self) -> None:
        self._drafting: defaultdict[int, _Steps] = defaultdict(_Steps)
        self._plain: defaultdict[int, _Steps] = defaultdict(_Steps)
        self._pause: list[tuple[Increment, float]] = []
        self._pause_seconds = 0.0
        self._now = 0.0

    def observe(self, increment: Increment, running_requests: float | None, *, plain: bool = True) -> None:
        """Take what an engine did between two polls, and the load at its end.

        ``plain`` says whether a step that drafts nothing costs what a plain one does: not where every step
        searches for a draft, see ``undrafted_steps_are_plain``. An engine whose decode steps are unknown, or
        are counted by the token, must not be observed.
        """
        self._now = increment.end
        running = running_requests or 0.0
        if increment.counters[Counter.DRAFTS]:
            self._end_pause()
            _add(self._drafting, increment, running)
        elif plain and increment.counters[Counter.DECODE_STEPS]:
            self._take_undrafted(increment, running)

    def forget_drafting(self) -> None:
        """Forget the steps with drafts, since the method or its models changed; keep the plain ones."""
        self._drafting.clear()

    def costs(self, fixed_tokens: float = 0.0, baseline: Sequence[StepTimes] = ()) -> tuple[LoadCost, ...]:
        """Return c at every load at which enough was seen with drafts and without, ascending by load.

        ``fixed_tokens`` is c0 in draft tokens. ``baseline`` are other engines whose steps without a draft
        count where this one's own are too few. The load is the mean one while drafting. A step that was no
        longer with drafts than without makes c 0.
        """
        found = (self._cost(bucket, fixed_tokens, baseline) for bucket in sorted(self._drafting))
        return tuple(cost for cost in found if cost is not None)

    def _cost(self, bucket: int, fixed_tokens: float, baseline: Sequence[StepTimes]) -> LoadCost | None:
        drafting, own = self._drafting[bucket], self._plain.get(bucket, _Steps())
        cost = _cost(drafting, own, fixed_tokens, self._now)
        if cost is not None or not baseline:
            return cost
        return _cost(drafting, _merged(bucket, baseline, self._now), fixed_tokens, self._now)

    def plain(self, bucket: int) -> _Steps | None:
        """Return the steps without a draft at one load; None if there were none."""
        return self._plain.get(bucket)

    def _take_undrafted(self, increment: Increment, running: float) -> None:
        """Hold steps without a draft back until they are enough in a row."""
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
    """Add steps at a load. Where nothing runs at the end, what ran before is not known."""
    if running > 0:
        side[_bucket(running)].add(increment, running)


def _merged(bucket: int, engines: Sequence[StepTimes], now: float) -> _Steps:
    """Return the steps without a draft of several engines at one load."""
    merged = _Steps()
    for engine in engines:
        steps = engine.plain(bucket)
        if steps is not None:
            merged.merge(steps, now)
    return merged


def _cost(drafting: _Steps, plain: _Steps, fixed_tokens: float, now: float) -> LoadCost | None:
    longer = ratio(drafting.nanoseconds, plain.nanoseconds)
    drafted = fixed_tokens + drafting.draft_tokens
    if longer is None or not drafted or min(drafting.batches(now), plain.batches(now)) < LEAST_STEPS:
        return None
    return LoadCost(running_requests=drafting.load, draft_cost_ratio=max(0.0, longer - 1) / drafted)
