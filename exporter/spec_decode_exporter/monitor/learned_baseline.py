"""Baseline of one model on one target: its plain steps and its requests while it ran without speculation.

Operators run a server without speculation first, or switch it off once a week. Such a period is the baseline
of the later time with drafts: its step times for the cost of a draft token, its requests for the speed-up of
a whole request. A new period replaces the earlier one as soon as it is long enough; drafts end it. All times
are Unix times, since a period outlives the exporter.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp2, inf, isfinite
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.end_to_end import RequestBaseline
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.quantile import quantile
from spec_decode_exporter.learned.plain_period import PlainPeriod
from spec_decode_exporter.monitor.step_blocks import HALF_LIFE_SECONDS, SavedBlocks, Sum
from spec_decode_exporter.monitor.step_times import MAX_SAVED_LOADS, PlainTimes, StepsByLoad, times_by_load
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.history import NANO
from spec_decode_exporter.window.poll import Increment

MIN_SECONDS: Final = 60.0
"""Time with requests from which on a period is a baseline."""
MIN_REQUESTS: Final = 30.0
"""First tokens that a mean time to first token needs."""
SAME_DAY_SECONDS: Final = HALF_LIFE_SECONDS
"""Age up to which a baseline is of the same day: later, traffic differs by the time of day."""
MAX_BUCKETS: Final = 64
"""Maximum buckets of the histogram of queue times; a larger one is ignored."""
_MAX_UNIX_TIME: Final = 253_402_300_799.0
"""Last second of the year 9999."""

_Duration = Annotated[float, Field(ge=0, le=1e10, allow_inf_nan=False)]
_UnixTime = Annotated[float, Field(ge=0, le=_MAX_UNIX_TIME, allow_inf_nan=False)]


@dataclass(slots=True)
class PlainRequests:
    """Sums over the requests of a period; older ones have less weight."""

    first_tokens: Sum = 0.0
    first_token_nanoseconds: Sum = 0.0
    prompt_tokens: Sum = 0.0
    prefix_cache_queries: Sum = 0.0
    prefix_cache_hits: Sum = 0.0
    seconds: Sum = 0.0
    running_seconds: Sum = 0.0

    def add(self, increment: Increment, running: float, weight: float) -> None:
        """Multiply the sums by ``weight`` and add an increment."""
        its, seconds = increment.counters, increment.end - increment.begin
        self.first_tokens = self.first_tokens * weight + its.first_tokens
        self.first_token_nanoseconds = self.first_token_nanoseconds * weight + its.first_token_nanoseconds
        self.prompt_tokens = self.prompt_tokens * weight + its.prompt_tokens
        self.prefix_cache_queries = self.prefix_cache_queries * weight + its.prefix_cache_queries
        self.prefix_cache_hits = self.prefix_cache_hits * weight + its.prefix_cache_hits
        self.seconds = self.seconds * weight + seconds
        self.running_seconds = self.running_seconds * weight + seconds * running


@dataclass(slots=True)
class QueueTimes:
    """Histogram of the times in the queue."""

    bounds: Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=MAX_BUCKETS)]
    """Upper bounds in seconds, without the last one, which is infinite."""
    counts: Annotated[list[Sum], Field(max_length=MAX_BUCKETS + 1)]
    """Cumulative counts."""

    def median(self) -> float | None:
        """Return the median in seconds; None without requests."""
        buckets = Buckets((*self.bounds, inf), tuple(map(round, self.counts)))
        return quantile(0.5, buckets)


@dataclass(slots=True)
class SavedPeriod:
    """Persisted period without speculation."""

    seconds: _Duration
    end: _UnixTime
    ended: bool
    """True if drafts ended it."""
    requests: PlainRequests
    queue: QueueTimes | None
    steps: Annotated[list[SavedBlocks], Field(max_length=MAX_SAVED_LOADS)]


_SAVED: Final = TypeAdapter(SavedPeriod)


class _Period:
    """A period that is observed, or was."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.end = 0.0
        self.requests = PlainRequests()
        self.queue: QueueTimes | None = None
        self.steps = StepsByLoad()

    def counts_before(self, other: _Period | None, *, is_same: bool) -> bool:
        """Return whether this is the baseline rather than another period.

        The newer period counts, once it is long enough. Of one period that was seen twice, as by a history
        and by the exporter that was started later, the longer view counts.
        """
        if self.seconds < MIN_SECONDS or other is None:
            return self.seconds >= MIN_SECONDS
        return self.seconds > other.seconds if is_same else self.end >= other.end

    def add(self, increment: Increment, running: float, wall: float, *, knows_steps: bool) -> None:
        self.requests.add(increment, running, exp2(min(self.end - wall, 0.0) / HALF_LIFE_SECONDS))
        self.seconds += increment.end - increment.begin
        self.end = max(self.end, wall)
        if knows_steps and increment.counters.decode_steps:
            self.steps.add(increment, increment.load, wall)

    def add_queue(self, bounds: list[float], counts: list[int]) -> None:
        if self.queue is None or self.queue.bounds != bounds:
            self.queue = QueueTimes(bounds, [0.0] * len(counts))
        self.queue.counts = [old + new for old, new in zip(self.queue.counts, counts, strict=True)]

    def request(self) -> RequestBaseline | None:
        sums = self.requests
        first_token = ratio(sums.first_token_nanoseconds, sums.first_tokens * NANO)
        if not first_token or sums.first_tokens < MIN_REQUESTS:
            return None
        hits = ratio(sums.prefix_cache_hits, sums.prefix_cache_queries)
        return RequestBaseline(
            first_token_seconds=first_token,
            prefix_hit_ratio=None if hits is None else min(hits, 1.0),
            queue_seconds=None if self.queue is None else self.queue.median(),
            prompt_tokens=ratio(sums.prompt_tokens, sums.first_tokens) or None,
            running_requests=ratio(sums.running_seconds, sums.seconds) or None,
        )


class LearnedBaseline:
    """Newest period without speculation of one model on one target; its engines share it."""

    def __init__(self) -> None:
        self._kept: _Period | None = None
        """The baseline."""
        self._growing: _Period | None = None
        """The present period; it is the baseline once it is long enough."""
        self._ended = False
        """Whether drafts ended the baseline's period."""
        self._plain_times: PlainTimes | None = None

    def plain(self, increment: Increment, running: float, wall: float, *, knows_steps: bool) -> None:
        """Add the increment of an engine that does not speculate, with the load and Unix time at its end.

        Args:
            increment: Increment; one without requests has no effect.
            running: Running requests at its end; 0 if unknown.
            wall: Unix time of its end.
            knows_steps: Whether its decode steps are known.
        """
        if not (increment.counters.decode_steps or increment.counters.first_tokens):
            return
        period = self._present()
        period.add(increment, running, wall, knows_steps=knows_steps)
        if period is not self._kept and period.counts_before(self._kept, is_same=False):
            self._kept, self._ended = period, False
        self._plain_times = None

    def queue(self, before: Buckets, after: Buckets) -> None:
        """Add the queue times between two pages of an engine that does not speculate."""
        counts = [new - old for old, new in zip(before.counts, after.counts, strict=False)]
        bounds = [bound for bound in after.bounds if isfinite(bound)]
        fits = before.bounds == after.bounds and len(counts) == len(bounds) + 1 <= MAX_BUCKETS + 1
        if self._growing is not None and fits and min(counts) >= 0:
            self._growing.add_queue(bounds, counts)

    def drafting(self) -> None:
        """End the period: the target speculates."""
        self._ended = True
        self._growing = None

    def adopt(self, other: LearnedBaseline) -> bool:
        """Take the period of another view of the same target, which is not used further, if that counts.

        Args:
            other: Baseline that was learned from a history.

        Returns:
            Whether it is the baseline now.
        """
        found, present = other._kept, self._growing or (None if self._ended else self._kept)
        is_same = present is not None and not other._ended
        if found is None or not found.counts_before(present if is_same else self._kept, is_same=is_same):
            return False
        if is_same:
            self._growing = found  # later steps without drafts continue it
        self._ended = not is_same and (self._ended or other._ended)
        self._kept, self._plain_times = found, None
        return True

    def plain_times(self, now: float) -> PlainTimes:
        """Return the plain step times at ``now`` (Unix time)."""
        if self._kept is None:
            return PlainTimes((), CostSource.BASELINE)
        if self._plain_times is None:
            times = times_by_load([self._kept.steps], self._kept.end)
            self._plain_times = PlainTimes(times, CostSource.BASELINE)
        return self._plain_times._replace(another_day=abs(now - self._kept.end) > SAME_DAY_SECONDS)

    def period(self, now: float) -> PlainPeriod | None:
        """Return the baseline at ``now`` (Unix time); None without one."""
        kept = self._kept
        if kept is None:
            return None
        return PlainPeriod(kept.seconds, kept.end, max(0.0, now - kept.end), kept.request())

    @property
    def end(self) -> float:
        """Unix time of the end of the baseline; 0 without one."""
        return self._kept.end if self._kept else 0.0

    def saved(self) -> dict[str, Any] | None:
        """Return the baseline as plain values for JSON; None without one."""
        kept = self._kept
        if kept is None:
            return None
        period = SavedPeriod(
            kept.seconds, kept.end, self._ended, kept.requests, kept.queue, kept.steps.saved()
        )
        saved: dict[str, Any] = _SAVED.dump_python(period, mode="json")
        return saved

    def restore(self, saved: object) -> bool:
        """Continue from the result of ``saved``; return False and change nothing if it is invalid."""
        try:
            known = _SAVED.validate_python(saved)
            period = _Period()
            period.steps.restore(known.steps)
        except (ValueError, ArithmeticError):
            return False
        if known.queue is not None and len(known.queue.counts) != len(known.queue.bounds) + 1:
            return False
        period.seconds, period.end = known.seconds, known.end
        period.requests, period.queue = known.requests, known.queue
        self._kept, self._ended, self._growing, self._plain_times = period, known.ended, None, None
        return True

    def _present(self) -> _Period:
        """Return the present period: a new one after drafts, else the kept one continues."""
        if self._growing is None:
            self._growing = self._kept if self._kept is not None and not self._ended else _Period()
        return self._growing
