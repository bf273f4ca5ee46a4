"""Histograms of one engine over the longest window, and the lengths of its finished answers.

Each answer has the geometric midpoint of its bucket; all results are ratios of sums, so a common error of
scale cancels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise, repeat
from math import inf, sqrt
from operator import lt, mul, sub
from typing import Final, NamedTuple

from spec_decode_exporter.scrape.engines import EngineMark, Latency, Quantity
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.ring import added, narrow

_LAST_BUCKET: Final = 2.5  # assumed ratio of the ends of the +Inf bucket: vLLM's bounds are 1, 2, 5, 10, …
_MAX_TOKENS: Final = 200_000  # maximum midpoint: no answer is longer
_MILLI: Final = 1000
_GONE_PAGES: Final = 3  # intervals without histograms after which their window is empty


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


@lru_cache(maxsize=64)
def _powers(bounds: tuple[float, ...]) -> Sequence[Sequence[int]]:
    """Return what an answer in each bucket adds to each power sum."""
    finite = [0.0, *bounds[:-1]]
    edges = pairwise([*finite, _LAST_BUCKET * finite[-1]])
    lengths = [min(sqrt((low or high) * high), _MAX_TOKENS) for low, high in edges]
    powers = [(1, round(_MILLI * length), round(length**2), round(length**3)) for length in lengths]
    return list(zip(*powers, strict=True))


def answers_of(buckets: Buckets | None) -> Answers:
    """Return the power sums of a histogram of lengths in tokens."""
    if buckets is None:
        return Answers()
    counts = [higher - lower for lower, higher in pairwise((0, *buckets.counts))]
    return Answers(*(sum(map(mul, counts, column)) for column in _powers(buckets.bounds)))


class Histograms:
    """Sums of histograms over the longest window; they are polled less often than counters."""

    def __init__(self, keep: float) -> None:
        """Keep ``keep`` seconds, the longest window."""
        self.keep = keep
        self._bounds: dict[Quantity, tuple[float, ...]] = {}
        self._before: tuple[float, Sequence[int]] | None = None  # time and counts of the page before
        self._newest, self._interval = -inf, 0.0
        self.clear()

    def clear(self) -> None:
        """Empty the window."""
        self._increments = deque[tuple[float, Sequence[int]]]()  # begins and counts
        self._sums: Sequence[int] = ()

    def restart(self, begin: float | None) -> None:
        """Begin a new process at ``begin``; None: that time is unknown."""
        self._before = None if begin is None else (begin, ())

    def fell(self, latencies: Mapping[Latency, Buckets]) -> bool:
        """Return whether a count is lower than on the page before, which no process does."""
        before = self._split(self._before[1]) if latencies and self._before else {}
        pairs = ((latencies[name], before[name]) for name in latencies if name in before)
        return any(new.bounds == old.bounds and any(map(lt, new.counts, old.counts)) for new, old in pairs)

    def add(
        self, latencies: Mapping[Latency, Buckets], lengths: Buckets | None, moment: float, interval: float
    ) -> None:
        """Add a page's histograms, also of the ``lengths`` of answers; ``interval`` is that of such pages."""
        self._newest, self._interval = moment, interval
        shown: dict[Quantity, Buckets] = {name: latencies[name] for name in sorted(latencies)}
        if lengths is not None:
            shown[EngineMark.ANSWER_LENGTHS] = lengths
        bounds = {name: buckets.bounds for name, buckets in shown.items()}
        if bounds != self._bounds:
            self.clear()
            self._bounds, self._before = bounds, None
        counts = [count for buckets in shown.values() for count in buckets.counts]
        before, self._before = self._before, (moment, narrow(counts))
        increment = list(map(sub, counts, chain(before[1], repeat(0)))) if before else []
        histograms = self._split(increment).values()
        if before and all([0, *each.counts] == sorted((0, *each.counts)) for each in histograms):
            self._increments.append((before[0], narrow(increment)))
            self._sums = narrow(added(self._sums, increment))
        # If the window ended now, it would lose its oldest increment before the next page arrives.
        edge = moment - self.keep - interval / 2
        while self._increments and self._increments[0][0] < edge:
            _, old = self._increments.popleft()
            self._sums = narrow(list(map(sub, self._sums, old)))

    def latencies(self, now: float) -> dict[Latency, Buckets]:
        """Return the latencies before the newest page with histograms; empty if that is too old."""
        found = self._window(now)
        return {name: buckets for name, buckets in found.items() if isinstance(name, Latency)}

    def answers(self, now: float) -> Answers:
        """Return the answers that ended in the same time."""
        return answers_of(self._window(now).get(EngineMark.ANSWER_LENGTHS))

    def _window(self, now: float) -> dict[Quantity, Buckets]:
        is_gone = now - self._newest > _GONE_PAGES * self._interval
        return {} if is_gone or not self._increments else self._split(self._sums)

    def _split(self, row: Sequence[int]) -> dict[Quantity, Buckets]:
        """Split the counts of all histograms."""
        counts = iter(row)
        return {
            name: Buckets(bounds, tuple(islice(counts, len(bounds)))) for name, bounds in self._bounds.items()
        }
