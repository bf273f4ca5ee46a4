"""Baseline of one model on one target: its steps and requests while it was served without speculation.

Operators run a server without speculation first, or switch it off once a week. Its steps then tell the cost
of a draft token, its requests the speed-up of a whole request. A new period replaces the earlier one as soon
as it is long enough; drafts end it. All times are Unix times: a period outlives the exporter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from math import inf, isfinite
from operator import attrgetter, sub
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field

from spec_decode_exporter.core.number_formats import long_time
from spec_decode_exporter.core.numbers import Amount, Seconds, UnixTime
from spec_decode_exporter.costs.steps import HALF_LIFE_SECONDS, StepTimes, faded
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import MAX_BUCKETS, Buckets
from spec_decode_exporter.window.engine_windows import NANO
from spec_decode_exporter.window.poll import Increment

MIN_SECONDS: Final = 60.0  # time with requests from which on a period is a baseline
MIN_REQUESTS: Final = 30.0  # first tokens that a mean time to first token needs
SAME_DAY_SECONDS: Final = HALF_LIFE_SECONDS
"""Age up to which a baseline is of the same day: later, traffic differs by the time of day."""
COMPARED: Final = (Latency.TIME_TO_FIRST_TOKEN, Latency.TIME_PER_OUTPUT_TOKEN)
"""Latencies that are compared: both are per request, so steps that give several tokens do not blur them."""


@dataclass(frozen=True, slots=True)
class BaselineSummary:
    """Time without speculation: its mean request, its length and its age.

    Unknown values are None; of fewer than ``MIN_REQUESTS`` requests all are.
    """

    first_token_seconds: float | None = None
    """P0: mean time to first token in seconds, time in the queue included; above 0."""
    prefix_hit_ratio: float | None = None
    """Share of prompt tokens that the prefix cache held, between 0 and 1; None if not looked up."""
    prompt_tokens: float | None = None
    """Mean tokens of a prompt. A baseline with other prompts is not comparable."""
    running_requests: float | None = None  # mean running requests
    requests: float = inf  # requests of the mean
    requests_per_second: float | None = None
    context_tokens: float | None = None  # mean tokens of a request in the middle of its answer
    token_seconds: float | None = None  # mean time per output token after the first, in seconds
    histograms: Mapping[Latency, Buckets] = field(default_factory=dict, repr=False)
    """Histograms over these requests."""
    seconds: float = 0.0  # time with requests
    end: float = 0.0  # Unix time of its end
    age_seconds: float = 0.0
    """Time from its end to the newest poll; 0 while the target serves the model without speculation."""

    @property
    def name(self) -> str:
        """Name in a sentence, with the day of its end (UTC): ``3 h without speculation on 12 November``."""
        day = datetime.fromtimestamp(self.end, UTC)
        return f"{long_time(self.seconds)} without speculation on {day.day} {day:%B}"


class BaselineRequests(NamedTuple):
    """Sums over the requests of a period; older ones have less weight."""

    first_tokens: Amount = 0.0
    first_token_nanoseconds: Amount = 0.0
    prompt_tokens: Amount = 0.0
    prefix_cache_queries: Amount = 0.0
    prefix_cache_hits: Amount = 0.0
    seconds: Amount = 0.0
    running_seconds: Amount = 0.0
    generation_tokens: Amount = 0.0
    decode_nanoseconds: Amount = 0.0
    decoded_requests: Amount = 0.0
    """First tokens since these three are counted: versions before did not keep them."""


class LearnedHistogram(NamedTuple):
    """Histogram over a period; older observations have less weight."""

    bounds: Annotated[tuple[Amount, ...], Field(max_length=MAX_BUCKETS)]
    """Upper bounds in seconds, without the last one, which is infinite."""
    counts: Annotated[tuple[Amount, ...], Field(max_length=MAX_BUCKETS + 1)]  # cumulative counts
    wall: UnixTime  # Unix time of the newest observation

    @property
    def buckets(self) -> Buckets:
        """Histogram with whole counts."""
        return Buckets((*self.bounds, inf), tuple(map(round, self.counts)))

    @property
    def is_cumulative(self) -> bool:
        """False for counts that decrease, as between two pages that were written during observations."""
        rows = self.bounds, (0.0, *self.counts)
        is_ascending = all(low <= high for row in rows for low, high in pairwise(row))
        return is_ascending and len(self.counts) == len(self.bounds) + 1


def _cumulative(found: dict[Latency, LearnedHistogram]) -> dict[Latency, LearnedHistogram]:
    """Return those of a state file that are histograms."""
    return {latency: each for latency, each in found.items() if each.is_cumulative}


_waited: Final = attrgetter(*BaselineRequests._fields[:5])
_decoded: Final = attrgetter(*BaselineRequests._fields[7:9], "first_tokens")
_Histograms = Annotated[dict[Latency, LearnedHistogram], AfterValidator(_cumulative)]


@dataclass(slots=True)
class Period:
    """Time without speculation. Persisted as it is."""

    seconds: Seconds = 0.0  # time with requests
    end: UnixTime = 0.0
    requests: BaselineRequests = field(default_factory=BaselineRequests)
    steps: StepTimes = field(default_factory=StepTimes)
    histograms: _Histograms = field(default_factory=dict)

    def add(self, increment: Increment, running: float, wall: float) -> None:
        """Add an increment with requests, with the running requests and the Unix time at its end."""
        seconds = increment.end - increment.begin
        waited, decoded = _waited(increment.counters), _decoded(increment.counters)
        added = (*waited, seconds, seconds * running, *decoded)
        self.requests = BaselineRequests(*faded(self.requests, wall - self.end, added))
        self.seconds, self.end = self.seconds + seconds, max(self.end, wall)

    def add_latencies(
        self, before: Mapping[Latency, Buckets], after: Mapping[Latency, Buckets], wall: float
    ) -> None:
        """Add the histograms between two pages, the later one read at a Unix time.

        One whose counts fell in between is left out; one with other buckets starts again.
        """
        for latency in COMPARED:
            old, new = before.get(latency), after.get(latency)
            if old is None or new is None or old.bounds != new.bounds:
                continue
            bounds = tuple(bound for bound in new.bounds if isfinite(bound))
            added = LearnedHistogram(bounds, tuple(map(sub, new.counts, old.counts)), wall)
            if not added.is_cumulative:
                continue
            known = self.histograms.get(latency)
            if known is not None and known.bounds == bounds:
                counts = tuple(faded(known.counts, wall - known.wall, added.counts))
                added = added._replace(counts=counts)
            self.histograms[latency] = added

    def summary(self, wall: float) -> BaselineSummary:
        """Return the period as seen at a Unix time."""
        sums, histograms = self.requests, {name: each.buckets for name, each in self.histograms.items()}
        known = BaselineSummary(
            histograms=histograms, seconds=self.seconds, end=self.end, age_seconds=max(0.0, wall - self.end)
        )
        first_token = ratio(sums.first_token_nanoseconds, sums.first_tokens * NANO)
        if not first_token or sums.first_tokens < MIN_REQUESTS:
            return known
        decoded = max(0.0, sums.generation_tokens - sums.decoded_requests)
        prompt = ratio(sums.prompt_tokens, sums.first_tokens)
        answer = ratio(sums.generation_tokens, sums.decoded_requests)
        hits = ratio(sums.prefix_cache_hits, sums.prefix_cache_queries)
        return replace(
            known,
            first_token_seconds=first_token,
            prefix_hit_ratio=None if hits is None else min(hits, 1.0),
            prompt_tokens=prompt or None,
            running_requests=ratio(sums.running_seconds, sums.seconds) or None,
            requests=sums.first_tokens,
            requests_per_second=ratio(sums.first_tokens, sums.seconds),
            context_tokens=prompt + answer / 2 if prompt and answer else None,
            token_seconds=ratio(sums.decode_nanoseconds, decoded * NANO),
        )

    def replaces(self, other: Period | None, *, is_same: bool) -> bool:
        """Return whether this is the baseline rather than another period: the newer one that is long enough.

        Of one period that was seen twice, as by a history and by an exporter, the longer view counts.
        """
        if self.seconds < MIN_SECONDS or other is None:
            return self.seconds >= MIN_SECONDS
        return self.seconds > other.seconds if is_same else self.end >= other.end


@dataclass(slots=True, weakref_slot=True)
class Baseline:
    """Newest long enough period of one model on one target; its engines share it. Persisted as it is."""

    kept: Period | None = None
    growing: Period | None = None  # a newer period; it replaces the kept one once it is long enough
    ended: bool = False  # True if drafts ended the baseline's period

    @property
    def present(self) -> Period | None:
        """Period that later increments without speculation continue; None if they begin one."""
        return self.growing or (None if self.ended else self.kept)

    @property
    def end(self) -> float:
        """Unix time of the end of the baseline; 0 without one."""
        return self.kept.end if self.kept else 0.0

    def plain(self, increment: Increment, running: float, wall: float) -> Period:
        """Add an increment without speculation, at whose end ``running`` requests ran; return its period."""
        period = self.present or Period()
        if increment.counters.decode_steps or increment.counters.first_tokens:
            period.add(increment, running, wall)
        if period is not self.kept:
            self.growing = period
            if period.replaces(self.kept, is_same=False):
                self.kept, self.growing, self.ended = period, None, False
        return period

    def drafting(self) -> None:
        """End the period: the target speculates."""
        self.growing, self.ended = None, True

    def adopt(self, other: Baseline) -> bool:
        """Take the period of another view of the same target, as of a history; return whether it counts."""
        found, present = other.kept, self.present
        is_same = present is not None and not other.ended
        if found is None or not found.replaces(present if is_same else self.kept, is_same=is_same):
            return False
        # Later steps without drafts continue the same period, or the present one beside an older one.
        self.growing = None if is_same else present
        self.ended = not is_same and (self.ended or other.ended)
        self.kept = found
        return True

    def summary(self, wall: float) -> BaselineSummary | None:
        """Return the baseline at a Unix time; None without one."""
        return None if self.kept is None else self.kept.summary(wall)
