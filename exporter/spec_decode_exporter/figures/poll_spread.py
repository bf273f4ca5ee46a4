"""Spread over polls: acceptance rates of single increments, weighted by draft tokens.

Each poll is a mean over all requests that run at the time. The spread is narrower than the spread over
requests, which the counters do not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import fsum, sqrt

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


@dataclass(frozen=True, slots=True)
class Spread:
    """The acceptance rates of a window's increments, each with its draft tokens as weight."""

    rates: tuple[tuple[float, int], ...]
    """Rate and weight, ascending by rate; never empty."""

    @property
    def lowest(self) -> float:
        """The lowest rate of a poll."""
        return self.rates[0][0]

    @property
    def highest(self) -> float:
        """The highest rate of a poll."""
        return self.rates[-1][0]

    def quantile(self, share: float) -> float:
        """Return the lowest rate that is not exceeded by ``share`` (0 to 1) of the draft tokens."""
        below = list(accumulate(weight for _, weight in self.rates))
        place = next(place for place, weight in enumerate(below) if weight >= share * below[-1])
        return self.rates[place][0]

    def standard_deviation(self) -> float:
        """Return the weighted standard deviation, with the same digits in every version of Python."""
        total = sum(weight for _, weight in self.rates)
        mean = fsum(rate * weight for rate, weight in self.rates) / total
        return sqrt(fsum(weight * (rate - mean) ** 2 for rate, weight in self.rates) / total)


def spread(window: Window) -> Spread | None:
    """Return the spread over a window's increments; None without draft tokens."""
    drafted = window.increments.counter(Counter.DRAFT_TOKENS)
    accepted = window.increments.counter(Counter.ACCEPTED_TOKENS)
    rates = sorted((hits / tries, tries) for tries, hits in zip(drafted, accepted, strict=True) if tries > 0)
    return Spread(tuple(rates)) if rates else None
