"""The increments of one engine over the longest window, and the windows made of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import add, sub

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ring import Ring, Rows, difference

NANO = 10**9
MIN_INCREMENTS = 3
"""A window of fewer increments is partial: it says what it holds, and no more."""

MEAN_GAUGES = (Gauge.RUNNING_REQUESTS, Gauge.WAITING_REQUESTS, Gauge.KV_CACHE_USAGE)
"""The gauges of which a window has the mean over its polls."""

_MAX_GAUGE = 2**31
"""Far above what the reader lets through: what is fed by hand cannot overflow either."""

# An increment is kept as two rows. That of counts has the counters, then the positions; that of times has
# what half of 64 bits does not hold: the time covered, the gauges' sums, and the counters of nanoseconds.
_COUNTS, _TIMES = range(2)
_NANOSECONDS = (Counter.DECODE_NANOSECONDS, Counter.END_TO_END_NANOSECONDS)
_COUNTED = tuple(counter for counter in Counter if counter not in _NANOSECONDS)
_POSITIONS = len(_COUNTED)
_COVERED = 0
_GAUGES = 1
_COLUMNS = {
    **{counter: (_COUNTS, place) for place, counter in enumerate(_COUNTED)},
    **{counter: (_TIMES, place) for place, counter in enumerate(_NANOSECONDS, _GAUGES + len(MEAN_GAUGES))},
}
"""In which row a counter is, and in which column of it."""

Totals = Sequence[Rows]
"""Running totals of counts, and of times."""


def rows_of(increment: Increment, gauges: Sequence[float | None]) -> tuple[list[int], list[int]]:
    """Return an increment's counts and times, with the values of ``MEAN_GAUGES`` at its end."""
    counters = increment.counters
    covered = round((increment.end - increment.begin) * NANO)
    return (
        [*(counters[counter] for counter in _COUNTED), *increment.positions],
        [covered, *map(_fixed, gauges), *(counters[counter] for counter in _NANOSECONDS)],
    )


class Increments:
    """The increments of a window, oldest first, column by column."""

    def __init__(
        self, totals: Totals, begins: Sequence[float] = (), polled: Sequence[int] | None = None
    ) -> None:
        """Take rows of running totals, one more than there are increments, and when each of these begins.

        ``polled`` are the polls up to each row; an increment that nothing was added to is one.
        """
        self._totals = totals
        self._begins = begins
        self._polled = range(len(totals[_COUNTS])) if polled is None else polled
        self._merged: dict[int, Increments] = {}

    def __len__(self) -> int:
        return max(0, len(self._polled) - 1)

    def counter(self, counter: Counter) -> list[int]:
        """Return how far the counter moved in each increment."""
        return self._column(*_COLUMNS[counter])

    def position(self, position: int) -> list[int]:
        """Return the accepted tokens of a draft position in each increment."""
        return self._column(_COUNTS, _POSITIONS + position)

    def gauge(self, gauge: Gauge) -> list[float]:
        """Return one of ``MEAN_GAUGES`` at the end of each increment; of merged ones, their sum."""
        return [value / NANO for value in self._column(_TIMES, _GAUGES + MEAN_GAUGES.index(gauge))]

    def seconds(self) -> list[float]:
        """Return the time that each increment covers."""
        return [nanoseconds / NANO for nanoseconds in self._column(_TIMES, _COVERED)]

    def polls(self) -> list[int]:
        """Return how many polls each increment is the sum of."""
        return list(map(sub, self._polled[1:], self._polled))

    def merged(self, most: int) -> Increments:
        """Return the same with neighbours added up, so that no more than ``most`` remain.

        Groups of equal numbers of increments end at the newest one; the oldest group may be smaller.
        """
        group = -(-len(self) // most)
        if group <= 1:
            return self
        if most not in self._merged:  # kept, since all that is judged by them asks for them again
            kept = list(range(len(self), -1, -group))
            self._merged[most] = self.between([*([0] if kept[-1] else []), *kept[::-1]])
        return self._merged[most]

    @property
    def begins(self) -> Sequence[float]:
        """When each of them begins (monotonic); of added ones that is not kept."""
        return self._begins

    def places(self, moments: Sequence[float]) -> list[int]:
        """Return how many increments begin before each of the moments (monotonic)."""
        return [bisect_left(self._begins, moment) for moment in moments]

    def between(self, places: Sequence[int]) -> Increments:
        """Return the same added up between places, each a number of increments before it, ascending."""
        totals = [rows.at(places) for rows in self._totals]
        return Increments(totals, polled=[self._polled[place] for place in places])

    def plus(self, other: Increments) -> Increments:
        """Return the sums of as many increments of another engine and these, one by one."""
        totals = [_added(*pair) for pair in zip(self._totals, other._totals, strict=True)]
        return Increments(totals, polled=list(map(add, self._polled, other._polled)))

    def _column(self, row: int, column: int) -> list[int]:
        values = self._totals[row].column(column)
        return list(map(sub, values[1:], values))


def _added(one: Rows, other: Rows) -> Rows:
    pairs = zip(one, other, strict=True)
    return Rows.of([list(map(sum, zip_longest(*pair, fillvalue=0))) for pair in pairs])


@dataclass(frozen=True, slots=True)
class Window:
    """Sums of increments over the last ``length`` seconds. What the engine does not tell is None."""

    length: float
    seconds: float
    """How much time the increments cover; less than ``length`` after a start, more or less by jitter."""
    polls: int
    """How many increments there are."""
    counters: tuple[int | None, ...]
    positions: tuple[int, ...]
    """Accepted tokens for each of the K draft positions."""
    gauges: tuple[float | None, ...]
    """Means over the polls, in the order of ``MEAN_GAUGES``."""
    increments: Increments = field(
        default_factory=lambda: Increments((Rows.of([]), Rows.of([]))), repr=False, compare=False
    )
    """What it is the sum of."""

    def __getitem__(self, counter: Counter) -> int | None:
        return self.counters[counter]

    @property
    def partial(self) -> bool:
        """Whether it covers too little to judge by: less than half its length, or under 3 increments."""
        return self.seconds < self.length / 2 or self.polls < MIN_INCREMENTS


@dataclass(frozen=True, slots=True)
class Known:
    """What an engine tells at all, so that a window can tell "none" from "unknown"."""

    counters: tuple[bool, ...]
    gauges: tuple[bool, ...]
    tokens: int
    """K, the number of draft positions."""
    slow_steps: bool = False
    """The server publishes its decode steps late, so that short windows would mislead."""


SLOW_STEPS_SECONDS = 60.0
"""How much a window must cover for decode steps that are published late to mean something."""

_STEP_COUNTERS = (Counter.DECODE_STEPS, Counter.DECODE_NANOSECONDS)


class Ledger:
    """The ring of one engine's increments."""

    def __init__(self, longest: float) -> None:
        """Keep what windows up to ``longest`` seconds need."""
        self._ring = Ring(longest, groups=2)

    def keep(self, longest: float) -> None:
        """Keep what windows up to ``longest`` seconds need, from now on."""
        self._ring.keep = longest

    def clear(self) -> None:
        """Start every window anew."""
        self._ring.clear()

    def add(self, increment: Increment, gauges: Sequence[float | None], interval: float) -> None:
        """Add an increment and the values of ``MEAN_GAUGES`` at its end; ``interval`` is that of polling."""
        self._ring.add(increment.begin, increment.end, rows_of(increment, gauges), interval)

    def window(self, length: float, interval: float, newest: float, known: Known) -> Window:
        """Sum the increments that begin no earlier than ``length`` and half an interval before ``newest``.

        A whole interval would be a knife edge, on which jitter decides whether one increment more is in.
        """
        edge = newest - length - interval / 2
        totals = self._ring.since(edge)
        counts, times = sums = [difference(rows[0], rows[-1]) for rows in totals]
        counts += [0] * (_POSITIONS + known.tokens - len(counts))
        times += [0] * (_GAUGES + len(MEAN_GAUGES) + len(_NANOSECONDS) - len(times))
        polls = len(totals[_COUNTS]) - 1
        return Window(
            length=length,
            seconds=times[_COVERED] / NANO,
            polls=polls,
            counters=_counter_sums(sums, known, length),
            positions=tuple(counts[_POSITIONS : _POSITIONS + known.tokens]),
            gauges=tuple(
                times[_GAUGES + place] / NANO / polls if polls and told else None
                for place, told in enumerate(known.gauges)
            ),
            increments=Increments(totals, self._ring.begins(edge)),
        )


def _fixed(gauge: float | None) -> int:
    """Return a gauge in integers, so that its sum is exact; what no server can mean is cut off."""
    return round(min(max(gauge or 0, -_MAX_GAUGE), _MAX_GAUGE) * NANO)


def _counter_sums(sums: Sequence[Sequence[int]], known: Known, length: float) -> tuple[int | None, ...]:
    # Jitter may leave a window a little short of its length.
    short = length < SLOW_STEPS_SECONDS or sums[_TIMES][_COVERED] < 0.9 * SLOW_STEPS_SECONDS * NANO
    late = _STEP_COUNTERS if known.slow_steps and short else ()
    return tuple(
        _sum_of(counter, sums) if known.counters[counter] and counter not in late else None
        for counter in Counter
    )


def _sum_of(counter: Counter, sums: Sequence[Sequence[int]]) -> int:
    row, column = _COLUMNS[counter]
    return sums[row][column]
