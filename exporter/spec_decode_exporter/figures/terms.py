"""Numerators and denominators of figures: the sums of a window, and their columns by increment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Final, Protocol

from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import MEAN_GAUGES, Increments, Window


class Term(Protocol):
    """Numerator or denominator of a figure."""

    def column(self, window: Window, increments: Increments) -> Sequence[float]:
        """Return its value in each of the window's increments."""


@dataclass(frozen=True, slots=True)
class CounterTerm:
    """A counter, or the difference of two counters."""

    counter: Counter
    minus: Counter | None = None
    divisor: int = 1
    """Counts in one unit of the figure: 10⁹ for nanoseconds in a figure of seconds."""

    @property
    def counters(self) -> tuple[Counter, ...]:
        """The counters that an engine must have."""
        return (self.counter,) if self.minus is None else (self.counter, self.minus)

    def total(self, count: Callable[[Counter], int | None]) -> float | None:
        """Return the sum of a window, of which ``count`` returns the counters; None if one is unknown."""
        whole, less = count(self.counter), 0 if self.minus is None else count(self.minus)
        if whole is None or less is None:
            return None
        return whole - less if self.divisor == 1 else (whole - less) / self.divisor

    def column(self, _: Window, increments: Increments) -> Sequence[float]:
        """Return its value in each increment."""
        counts: Sequence[float] = increments.counter(self.counter)
        if self.minus is not None:
            counts = list(map(sub, counts, increments.counter(self.minus)))
        return counts if self.divisor == 1 else [count / self.divisor for count in counts]


@dataclass(frozen=True, slots=True)
class SecondsTerm:
    """The time that increments cover."""

    def column(self, window: Window, increments: Increments) -> Sequence[float]:
        """Return the time of each increment; of engines side by side, whose times add up, that of one."""
        seconds = increments.seconds()
        total = sum(seconds)
        return [each * window.seconds / total for each in seconds] if total else seconds


@dataclass(frozen=True, slots=True)
class PollsTerm:
    """The polls of increments: the number of readings of a gauge, however long an increment took."""

    def column(self, _: Window, increments: Increments) -> Sequence[float]:
        """Return the polls of each increment."""
        return increments.polls()


@dataclass(frozen=True, slots=True)
class GaugeTerm:
    """The sum of a gauge over polls."""

    gauge: Gauge

    def column(self, window: Window, increments: Increments) -> Sequence[float]:
        """Return the sum of each increment; of engines side by side so that their mean is the window's."""
        sums, mean = increments.gauge(self.gauge), window.gauges[MEAN_GAUGES.index(self.gauge)] or 0.0
        total = sum(sums)
        return [each * mean * sum(increments.polls()) / total for each in sums] if total else sums


@dataclass(frozen=True, slots=True)
class PositionTerm:
    """The accepted tokens of a draft position."""

    position: int

    def column(self, _: Window, increments: Increments) -> Sequence[float]:
        """Return the accepted tokens of each increment."""
        return increments.position(self.position)


DECODED_TOKENS: Final = CounterTerm(Counter.GENERATION_TOKENS, Counter.FIRST_TOKENS)
"""Tokens that decode steps gave: all but the first of each request."""
