"""What happened to one engine between two polls: an increment, a reset, or both."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS
from spec_decode_exporter.scrape.page.sample import Sample

TORN_DRAFTS = 16
"""How many drafts, besides two for each running request, a page may be torn by: see ``Counts.torn``."""
MAX_INCREMENT = 2**62
"""No counter moves so far between two polls; two such increments are still within 64 bits."""


class Reset(StrEnum):
    """Why counters began anew; the value is the ``cause`` label."""

    RESTART = "restart"
    """The counters' creation time, or the process', is another one."""
    DECREASE = "decrease"
    """A counter is lower than before, or counters contradict each other."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters of one engine at one successful poll. A series that is missing keeps its last value."""

    moment: float
    """When the page was read, on the monotonic clock."""
    wall: float
    """The same as Unix time."""
    created: float | None
    counters: tuple[int, ...]
    positions: tuple[int, ...]
    running: float

    @property
    def torn(self) -> float:
        """How many drafts two counters of the page may be apart.

        A page is rendered while the engine counts on. The counters of one step are raised one after the
        other, so a page can miss some of a step's raises: one draft for each running request.
        """
        return TORN_DRAFTS + 2 * max(self.running, 0)

    @property
    def tokens(self) -> int:
        """K, the number of draft positions of this process, as far as the page shows it.

        max(positions, ⌈T/D⌉). Where there are positions, a T that is ahead of D by no more than the page
        can be torn does not speak against them: it would add a position that does not exist.
        """
        drafts = self.counters[Counter.DRAFTS] + (self.torn if self.positions else 0)
        longest = ceil(self.counters[Counter.DRAFT_TOKENS] / drafts) if drafts else 0
        return max(len(self.positions), min(longest, MAX_POSITIONS))


@dataclass(frozen=True, slots=True)
class Increment:
    """How far the counters moved, and over which time (monotonic clock)."""

    begin: float
    end: float
    counters: tuple[int, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PollStep:
    """From one poll to the next."""

    counts: Counts
    increment: Increment | None
    """None if nothing can be said of the time between: the page is a new starting point."""
    reset: Reset | None = None


def first(sample: Sample, moment: float, wall: float) -> Counts:
    """Take an engine's first sample, or the first after a reset, as a starting point. Missing is 0."""
    return Counts(
        moment,
        wall,
        sample.created,
        tuple(value or 0 for value in sample.counters),
        sample.positions,
        sample.gauge(Gauge.RUNNING_REQUESTS) or 0,
    )


def step(before: Counts, sample: Sample, moment: float, wall: float) -> PollStep:
    """Compare a sample with the counts of the poll before it."""
    reset = _reset(before, sample)
    if reset:
        return _restart(before, first(sample, moment, wall), reset)
    counts = Counts(
        moment,
        wall,
        sample.created if sample.created is not None else before.created,
        tuple(old if new is None else new for old, new in zip(before.counters, sample.counters, strict=True)),
        sample.positions + before.positions[len(sample.positions) :],
        sample.gauge(Gauge.RUNNING_REQUESTS) or 0,
    )
    increment = Increment(
        before.moment,
        moment,
        tuple(new - old for old, new in zip(before.counters, counts.counters, strict=True)),
        _difference(before.positions, counts.positions),
    )
    if _contradicts(increment, before, counts):
        return PollStep(first(sample, moment, wall), None, Reset.DECREASE)
    return PollStep(counts, increment)


def _reset(before: Counts, sample: Sample) -> Reset | None:
    if None not in (sample.created, before.created) and sample.created != before.created:
        return Reset.RESTART
    fell = any(
        new is not None and new < old for old, new in zip(before.counters, sample.counters, strict=True)
    )
    fell = fell or any(new < old for old, new in zip(before.positions, sample.positions, strict=False))
    return Reset.DECREASE if fell else None


def _restart(before: Counts, counts: Counts, reset: Reset) -> PollStep:
    """Count a new process' values only if it began after the last poll.

    Otherwise they are another server's, behind the same address, or a worker vanished from a sum:
    lifetime totals, of which nobody can say what is new.
    """
    if reset is not Reset.RESTART or counts.created is None or counts.created <= before.wall:
        return PollStep(counts, None, reset)
    begin = counts.moment - (counts.wall - counts.created)
    if not before.moment < begin <= counts.moment or _leaps(counts.counters + counts.positions):
        return PollStep(counts, None, reset)
    return PollStep(counts, Increment(begin, counts.moment, counts.counters, counts.positions), reset)


def _difference(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    padded = before + (0,) * (len(after) - len(before))
    return tuple(new - old for old, new in zip(padded, after, strict=True))


def _contradicts(increment: Increment, before: Counts, after: Counts) -> bool:
    """Return whether A > T or a_0 > D by more than a torn page explains, or a counter leapt beyond belief."""
    drafts = increment.counters[Counter.DRAFTS]
    excess = increment.counters[Counter.ACCEPTED_TOKENS] - increment.counters[Counter.DRAFT_TOKENS]
    torn = max(before.torn, after.torn)
    survived = increment.positions[0] - drafts if increment.positions else 0
    leaps = _leaps(increment.counters + increment.positions)
    return survived > torn or excess > torn * max(1, after.tokens) or leaps


def _leaps(counters: tuple[int, ...]) -> bool:
    return max(counters) >= MAX_INCREMENT
