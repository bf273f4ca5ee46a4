"""Ledger of one engine: its increments over the longest window, and windows as sums of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from operator import add, sub
from typing import Any, Self

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.answer_lengths import NO_ANSWERS, AnswerLengths
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ring import Ring, Rows, difference

NANO = 10**9
MAX_CACHED = 64
"""Maximum increments whose columns are cached: several figures of an evaluation use the merged ones."""
MIN_INCREMENTS = 3
"""Minimum increments of a window; one with fewer is partial."""

MEAN_GAUGES = (Gauge.RUNNING_REQUESTS, Gauge.WAITING_REQUESTS, Gauge.KV_CACHE_USAGE)
"""Gauges whose mean over the polls is in a window."""

_MAX_GAUGE = 2**31
"""Maximum absolute value of a gauge, far above the reader's limits: sums cannot overflow."""

# An increment is two rows. Counts: the counters, then the positions. Times, which exceed 32 bits: the covered
# time, the gauges' sums, and the counters of nanoseconds.
_COUNTS, _TIMES = range(2)
_NANOSECONDS = (
    Counter.DECODE_NANOSECONDS,
    Counter.END_TO_END_NANOSECONDS,
    Counter.FIRST_TOKEN_NANOSECONDS,
)
_COUNTED = tuple(counter for counter in Counter if counter not in _NANOSECONDS)
_POSITIONS = len(_COUNTED)
_COVERED = 0
_GAUGES = 1
_COLUMNS = {
    **{counter: (_COUNTS, place) for place, counter in enumerate(_COUNTED)},
    **{counter: (_TIMES, place) for place, counter in enumerate(_NANOSECONDS, _GAUGES + len(MEAN_GAUGES))},
}
"""Row and column of each counter."""
_IN_ORDER = tuple((counter, _COLUMNS[counter]) for counter in Counter)

Totals = Sequence[Rows]
"""Running totals of counts and of times."""


def rows_of(increment: Increment, gauges: Sequence[float | None]) -> tuple[list[int], list[int]]:
    """Return the rows of an increment, with the values of ``MEAN_GAUGES`` at its end."""
    counters = increment.counters
    covered = round((increment.end - increment.begin) * NANO)
    return (
        [*(counters[counter] for counter in _COUNTED), *increment.positions],
        [covered, *map(_fixed, gauges), *(counters[counter] for counter in _NANOSECONDS)],
    )


class Increments:
    """Increments of a window, oldest first, by column."""

    def __init__(
        self, totals: Totals, begins: Sequence[float] = (), polled: Sequence[int] | None = None
    ) -> None:
        """View running totals, one row more than increments, with the increments' start times.

        ``polled`` is the cumulative number of polls at each row; by default, each increment is one poll.
        """
        self._totals = totals
        self._begins = begins
        self._polled = range(len(totals[_COUNTS])) if polled is None else polled
        self._merged: dict[int, Increments] = {}
        self._cached: dict[tuple[int, int], list[int]] = {}

    def __len__(self) -> int:
        return max(0, len(self._polled) - 1)

    def counter(self, counter: Counter) -> list[int]:
        """Return the counter's difference in each increment."""
        return self._column(*_COLUMNS[counter])

    def position(self, position: int) -> list[int]:
        """Return the accepted tokens of a draft position in each increment."""
        return self._column(_COUNTS, _POSITIONS + position)

    def gauge(self, gauge: Gauge) -> list[float]:
        """Return one of ``MEAN_GAUGES`` at the end of each increment; of merged ones, their sum."""
        return [value / NANO for value in self._column(_TIMES, _GAUGES + MEAN_GAUGES.index(gauge))]

    def seconds(self) -> list[float]:
        """Return the covered seconds of each increment."""
        return [nanoseconds / NANO for nanoseconds in self._column(_TIMES, _COVERED)]

    def polls(self) -> list[int]:
        """Return the number of polls in each increment."""
        return list(map(sub, self._polled[1:], self._polled))

    def merged(self, max_increments: int) -> Increments:
        """Merge neighbours into at most ``max_increments`` increments.

        Groups have equal sizes and end at the newest increment; the oldest group may be smaller.
        """
        group = -(-len(self) // max_increments)
        if group <= 1:
            return self
        if max_increments not in self._merged:  # cached: several figures use the same increments
            kept = list(range(len(self), -1, -group))
            self._merged[max_increments] = self.between([*([0] if kept[-1] else []), *kept[::-1]])
        return self._merged[max_increments]

    def forget(self) -> None:
        """Free what is cached for the figures of one evaluation."""
        self._merged.clear()
        self._cached.clear()

    @property
    def begins(self) -> Sequence[float]:
        """Start times (monotonic); empty for merged increments."""
        return self._begins

    def places(self, moments: Sequence[float]) -> list[int]:
        """Return the number of increments that begin before each of the moments (monotonic)."""
        return [bisect_left(self._begins, moment) for moment in moments]

    def between(self, places: Sequence[int]) -> Increments:
        """Return the increments, added up between ascending places."""
        totals = [rows.at(places) for rows in self._totals]
        return Increments(totals, polled=[self._polled[place] for place in places])

    def plus(self, other: Increments) -> Increments:
        """Add the increments of another engine, of equal number, one by one."""
        totals = [_added(*pair) for pair in zip(self._totals, other._totals, strict=True)]
        return Increments(totals, polled=list(map(add, self._polled, other._polled)))

    def _column(self, row: int, column: int) -> list[int]:
        key = row, column
        if key in self._cached:
            return self._cached[key]
        values = list(self._totals[row].column(column))
        differences = list(map(sub, values[1:], values))
        if len(self) <= MAX_CACHED:
            self._cached[key] = differences
        return differences


def _added(one: Rows, other: Rows) -> Rows:
    pairs = zip(one, other, strict=True)
    return Rows.of([list(map(sum, zip_longest(*pair, fillvalue=0))) for pair in pairs])


@dataclass(frozen=True, slots=True)
class Window:
    """Sums of increments over the last ``length`` seconds. A value that the engine lacks is None."""

    length: float
    seconds: float
    """Covered seconds: less than ``length`` after a start; jitter changes them slightly."""
    polls: int
    """Number of increments."""
    counters: tuple[int | None, ...]
    positions: tuple[int, ...]
    """Accepted tokens for each of the K draft positions."""
    gauges: tuple[float | None, ...]
    """Means over the polls, in the order of ``MEAN_GAUGES``."""
    increments: Increments = field(
        default_factory=lambda: Increments((Rows.of([]), Rows.of([]))), repr=False, compare=False
    )
    """The increments in the sum."""
    answers: AnswerLengths = NO_ANSWERS
    """Answers that ended in the *longest* window: a shorter one has too few for their variation."""
    results: dict[Callable[..., Any], Any] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )
    """Results of formulas: see ``once_per_window``."""

    def __getitem__(self, counter: Counter) -> int | None:
        return self.counters[counter]

    @property
    def partial(self) -> bool:
        """True if the window is too short to evaluate: under half its length, or under 3 increments."""
        return self.seconds < self.length / 2 or self.polls < MIN_INCREMENTS

    def of_length(self, length: float) -> Self:
        """Return the same sums as a window of another length; it shares the results of formulas."""
        if length == self.length:
            return self
        other = replace(self, length=length)
        if other.partial == self.partial:
            object.__setattr__(other, "results", self.results)
        return other

    def forget(self) -> None:
        """Free what is kept for the figures of one evaluation."""
        self.results.clear()
        self.increments.forget()


@dataclass(frozen=True, slots=True)
class PublishedValues:
    """Values that an engine publishes: a window distinguishes 0 from unknown by them."""

    counters: tuple[bool, ...]
    gauges: tuple[bool, ...]
    tokens: int
    """K, the number of draft positions."""
    late_steps: bool = False
    """The server publishes its decode steps late: short windows would mislead."""


SLOW_STEPS_SECONDS = 60.0
"""Minimum window, in seconds, for decode steps that are published late."""

_STEP_COUNTERS = (Counter.DECODE_STEPS, Counter.DECODE_NANOSECONDS)


class Ledger:
    """Ring of one engine's increments."""

    def __init__(self, longest: float) -> None:
        """Keep enough for windows up to ``longest`` seconds."""
        self._ring = Ring(longest, groups=2)

    def keep(self, longest: float) -> None:
        """Change the longest window."""
        self._ring.keep = longest

    def clear(self) -> None:
        """Reset all windows."""
        self._ring.clear()

    def add(self, increment: Increment, gauges: Sequence[float | None], interval: float) -> None:
        """Add an increment and the values of ``MEAN_GAUGES`` at its end; ``interval`` is that of polls."""
        self._ring.add(increment.begin, increment.end, rows_of(increment, gauges), interval)

    def window(
        self,
        length: float,
        interval: float,
        newest: float,
        known: PublishedValues,
        answers: AnswerLengths = NO_ANSWERS,
    ) -> Window:
        """Sum the increments that begin at most ``length`` and half an interval before ``newest``.

        With a whole interval, jitter would decide whether one more increment is in the window.
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
                times[_GAUGES + place] / NANO / polls if polls and is_known else None
                for place, is_known in enumerate(known.gauges)
            ),
            increments=Increments(totals, self._ring.begins(edge)),
            answers=answers,
        )


def _fixed(gauge: float | None) -> int:
    """Return a gauge as an integer, so that its sum is exact; clamp implausible values."""
    return round(min(max(gauge or 0, -_MAX_GAUGE), _MAX_GAUGE) * NANO)


def _counter_sums(
    sums: Sequence[Sequence[int]], known: PublishedValues, length: float
) -> tuple[int | None, ...]:
    # Jitter may make a window slightly shorter than its length.
    short = length < SLOW_STEPS_SECONDS or sums[_TIMES][_COVERED] < 0.9 * SLOW_STEPS_SECONDS * NANO
    late = _STEP_COUNTERS if known.late_steps and short else ()
    return tuple(
        [
            sums[row][column] if is_known and counter not in late else None
            for (counter, (row, column)), is_known in zip(_IN_ORDER, known.counters, strict=True)
        ]
    )
