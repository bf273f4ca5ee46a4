"""Increments and resets of one engine between two polls."""

from __future__ import annotations

from enum import StrEnum
from math import ceil
from operator import lt, sub
from typing import NamedTuple

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS
from spec_decode_exporter.scrape.page.sample import Sample

TORN_DRAFTS = 16
"""Drafts by which a page may be torn, besides two for each running request: see ``Counts.torn``."""
MAX_INCREMENT = 2**62
"""Exclusive maximum of an increment; the sum of two fits into 64 bits."""


class Reset(StrEnum):
    """Cause of a counter reset. The value is the ``cause`` label."""

    RESTART = "restart"
    """The creation time of the counters or of the process changed."""
    DECREASE = "decrease"
    """A counter decreased, or counters contradict each other."""


class Counts(NamedTuple):
    """Counters of one engine at one successful poll. A missing series keeps its last value."""

    moment: float
    """Time of the reading (monotonic)."""
    wall: float
    """Time of the reading (Unix time)."""
    created: float | None
    counters: tuple[int, ...]
    positions: tuple[int, ...]
    running: float

    @property
    def torn(self) -> float:
        """Maximum inconsistency of two counters on the page, in drafts.

        The server renders the page while the engine counts. The counters of one step increase one after the
        other, so a page can lack some of them: one draft for each running request.
        """
        return TORN_DRAFTS + 2 * max(self.running, 0)

    @property
    def tokens(self) -> int:
        """K, the number of draft positions of this process that the page shows: max(positions, ⌈T/D⌉).

        With positions on the page, T may exceed K·D by the inconsistency of a torn page: otherwise it would
        add a position that does not exist.
        """
        drafts = self.counters[Counter.DRAFTS] + (self.torn if self.positions else 0)
        longest = ceil(self.counters[Counter.DRAFT_TOKENS] / drafts) if drafts else 0
        return max(len(self.positions), min(longest, MAX_POSITIONS))


class Increment(NamedTuple):
    """Differences of the counters over an interval of time (monotonic)."""

    begin: float
    end: float
    counters: tuple[int, ...]
    positions: tuple[int, ...]


class PollStep(NamedTuple):
    """Change from one poll to the next."""

    counts: Counts
    increment: Increment | None
    """None if the change is unknown: the page is a new starting point."""
    reset: Reset | None = None


def first(sample: Sample, moment: float, wall: float) -> Counts:
    """Return a starting point: the first sample, or the first after a reset. Missing values are 0."""
    return Counts(
        moment,
        wall,
        sample.created,
        tuple(value or 0 for value in sample.counters),
        sample.positions,
        sample.gauge(Gauge.RUNNING_REQUESTS) or 0,
    )


def step(before: Counts, sample: Sample, moment: float, wall: float) -> PollStep:
    """Compare a sample with the counts of the previous poll."""
    pairs = zip(before.counters, sample.counters, strict=True)
    counters = tuple([old if new is None else new for old, new in pairs])
    reset = _reset(before, sample, counters)
    if reset:
        return _restart(before, first(sample, moment, wall), reset)
    counts = Counts(
        moment,
        wall,
        sample.created if sample.created is not None else before.created,
        counters,
        sample.positions + before.positions[len(sample.positions) :],
        sample.gauge(Gauge.RUNNING_REQUESTS) or 0,
    )
    increment = Increment(
        before.moment,
        moment,
        tuple(map(sub, counters, before.counters)),
        _difference(before.positions, counts.positions),
    )
    if _contradicts(increment, before, counts):
        return PollStep(first(sample, moment, wall), None, Reset.DECREASE)
    return PollStep(counts, increment)


def reset_cause(before: Counts, sample: Sample) -> Reset | None:
    """Return the cause for which a sample is of other counters than ``before``; None if it continues them."""
    pairs = zip(before.counters, sample.counters, strict=True)
    return _reset(before, sample, tuple([old if new is None else new for old, new in pairs]))


def _reset(before: Counts, sample: Sample, counters: tuple[int, ...]) -> Reset | None:
    """Return the cause of a reset; ``counters`` are the sample's, with the last value of a missing one."""
    if None not in (sample.created, before.created) and sample.created != before.created:
        return Reset.RESTART
    decreased = any(map(lt, counters, before.counters)) or any(map(lt, sample.positions, before.positions))
    return Reset.DECREASE if decreased else None


def _restart(before: Counts, counts: Counts, reset: Reset) -> PollStep:
    """Count a new process' values only if the process started after the last poll.

    Otherwise they are lifetime totals of another server at the same address, or of a sum that lost a worker.
    Their increase since the last poll is unknown.
    """
    if reset is not Reset.RESTART or counts.created is None or counts.created <= before.wall:
        return PollStep(counts, None, reset)
    begin = counts.moment - (counts.wall - counts.created)
    if not before.moment < begin <= counts.moment or _is_implausible(counts.counters + counts.positions):
        return PollStep(counts, None, reset)
    return PollStep(counts, Increment(begin, counts.moment, counts.counters, counts.positions), reset)


def _difference(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sub, after, before + (0,) * (len(after) - len(before))))


def _contradicts(increment: Increment, before: Counts, after: Counts) -> bool:
    """Return whether A > T or a_0 > D by more than a torn page explains, or an increment is implausible."""
    drafts = increment.counters[Counter.DRAFTS]
    excess = increment.counters[Counter.ACCEPTED_TOKENS] - increment.counters[Counter.DRAFT_TOKENS]
    torn = max(before.torn, after.torn)
    first_excess = increment.positions[0] - drafts if increment.positions else 0
    if first_excess > torn or _is_implausible(increment.counters + increment.positions):
        return True
    return excess > torn and excess > torn * max(1, after.tokens)


def _is_implausible(counters: tuple[int, ...]) -> bool:
    return max(counters) >= MAX_INCREMENT
