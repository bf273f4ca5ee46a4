"""Histograms of one engine over the longest window, and the lengths of its finished answers.

Lengths are kept as power sums instead of buckets: their differences and sums are exact. Each answer has the
geometric midpoint of its bucket; all results are ratios of sums, so a common error of scale cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from math import inf, sqrt
from operator import lt, mul, sub
from typing import Final, NamedTuple

from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.ring import Increments, Ring

_LAST_BUCKET: Final = 2.5
"""Assumed ratio of the ends of the +Inf bucket: vLLM's bounds are 1, 2, 5, 10, …"""
_MAX_TOKENS: Final = 200_000
"""Maximum midpoint, so that the cubes of a window fit into 64 bits."""
_MAX_SUM: Final = 2**60
_MILLI: Final = 1000
_GONE_PAGES: Final = 3
"""Intervals without histograms after which their window is empty."""


class Answers(NamedTuple):
    """Power sums of the lengths of finished answers."""

    requests: int = 0
    millitokens: int = 0
    squares: int = 0
    cubes: int = 0

    @property
    def equal_share(self) -> float | None:
        """(Σl)²/(n·Σl²): the share of requests of equal length with the same certainty."""
        if not self.squares:
            return None
        return min(1.0, (self.millitokens / _MILLI) ** 2 / (self.requests * self.squares))

    @property
    def life_share(self) -> float | None:
        """Σl·Σl²/(n·Σl³): the mean length over its mean weighted by squares, as in a sum's variance."""
        if not self.cubes:
            return None
        return min(1.0, self.millitokens / _MILLI * self.squares / (self.requests * self.cubes))


def answers_of(buckets: Buckets | None) -> Answers:
    """Return the power sums of a histogram of lengths in tokens."""
    if buckets is None:
        return Answers()
    counts = [higher - lower for lower, higher in pairwise((0, *buckets.counts))]
    finite = [0.0, *buckets.bounds[:-1]]
    edges = pairwise([*finite, _LAST_BUCKET * finite[-1]])
    lengths = [min(sqrt((low or high) * high), _MAX_TOKENS) for low, high in edges]
    powers = [(1, round(_MILLI * length), round(length**2), round(length**3)) for length in lengths]
    return Answers(*(sum(map(mul, counts, column)) for column in zip(*powers, strict=True)))


class Histograms:
    """Ring of histograms, which are polled less often than counters; answers are the last columns."""

    def __init__(self, keep: float) -> None:
        """Keep ``keep`` seconds, the longest window."""
        self.ring = Ring(keep)
        self._bounds: dict[Latency, tuple[float, ...]] = {}
        self._before: tuple[float, list[int]] | None = None
        self._newest = -inf
        self._interval = 0.0

    def restart(self, begin: float | None) -> None:
        """Begin a new process at ``begin``; None: that time is unknown."""
        columns = sum(map(len, self._bounds.values())) + len(Answers())
        self._before = None if begin is None or not self._bounds else (begin, [0] * columns)

    def fell(self, latencies: Mapping[Latency, Buckets]) -> bool:
        """Return whether a count is lower than on the page before, which no process does."""
        before = self._latencies(self._before[1]) if self._before else {}
        found = ((latencies[name], old) for name, old in before.items() if name in latencies)
        return any(new.bounds == old.bounds and any(map(lt, new.counts, old.counts)) for new, old in found)

    def add(
        self, latencies: Mapping[Latency, Buckets], answers: Answers, moment: float, interval: float
    ) -> None:
        """Add the histograms of a page; ``interval`` is that of polls with histograms."""
        self._newest, self._interval = moment, interval
        bounds = {name: latencies[name].bounds for name in sorted(latencies)}
        if bounds != self._bounds:
            self.ring.clear()
            self._bounds, self._before = bounds, None
        row = [*(count for name in bounds for count in latencies[name].counts), *answers]
        before, self._before = self._before, (moment, row)
        if before is None:
            return
        *counts, requests, tokens, squares, cubes = map(sub, row, before[1])
        finished = requests, tokens, squares, cubes
        is_possible = min(finished) >= 0 and max(finished) <= _MAX_SUM
        increments = self._latencies(counts).values()
        if all([0, *each.counts] == sorted((0, *each.counts)) for each in increments):
            self.ring.add(before[0], moment, [*counts, *(finished if is_possible else Answers())], interval)

    def latencies(self, now: float) -> dict[Latency, Buckets]:
        """Return the latencies before the newest page with histograms; empty if that is too old."""
        its = self._increments(now)
        return self._latencies(its.sums(0)) if its else {}

    def answers(self, now: float) -> Answers:
        """Return the answers that ended in the same time."""
        its = self._increments(now)
        return Answers(*map(its.sum, range(len(its.totals))[-len(Answers()) :])) if its else Answers()

    def _increments(self, now: float) -> Increments | None:
        """Return the increments of the window that ends at the newest page with histograms; None without.

        If it ended at ``now``, it would lose its oldest increment before the next page arrives.
        """
        increments = self.ring.since(self._newest - self.ring.keep - self._interval / 2)
        is_gone = now - self._newest > _GONE_PAGES * self._interval
        return None if is_gone or not len(increments) else increments

    def _latencies(self, row: Sequence[int]) -> dict[Latency, Buckets]:
        """Split the row of an increment by histogram."""
        counts = iter(row)
        return {
            name: Buckets(bounds, tuple(islice(counts, len(bounds)))) for name, bounds in self._bounds.items()
        }
