"""Latency histograms over the longest window: a ring of their own, filled at a slower pace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ring import Ring, difference

GONE_PAGES = 3
"""After so many intervals without histograms their window is no longer shown."""

Bounds = tuple[tuple[Latency, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Point:
    """The histograms at one poll; ``counts`` of all of them behind one another."""

    moment: float
    counts: tuple[int, ...]


class HistogramLedger:
    """The histograms' increments of one engine."""

    def __init__(self, length: float) -> None:
        """Keep ``length`` seconds, the longest window's."""
        self._length = length
        self._ring = Ring(length)
        self._bounds: Bounds = ()
        self._before: _Point | None = None
        self._newest = -inf
        self._interval = 0.0

    def keep(self, length: float) -> None:
        """Keep another length from now on."""
        self._length = self._ring.keep = length

    def clear(self) -> None:
        """Start the window anew with the next increment."""
        self._ring.clear()

    def reset(self, begin: float | None) -> None:
        """Note that the counters began anew at ``begin``; None if that moment is of no use."""
        empty = (0,) * sum(len(bounds) for _, bounds in self._bounds)
        self._before = _Point(begin, empty) if begin is not None and self._bounds else None

    def add(self, latencies: Mapping[Latency, Buckets], moment: float, interval: float) -> None:
        """Take the histograms of a page that was read with them; ``interval`` is that of such pages."""
        self._interval, self._newest = interval, moment
        # Sorted, since a filtered page may have them in another order than the whole one.
        ordered = sorted(latencies.items())
        bounds = tuple((latency, buckets.bounds) for latency, buckets in ordered)
        counts = tuple(count for _, buckets in ordered for count in buckets.counts)
        if bounds != self._bounds:
            self._ring.clear()
            self._before = None
            self._bounds = bounds
        before, self._before = self._before, _Point(moment, counts)
        if before is None:
            return
        increment = [new - old for old, new in zip(before.counts, counts, strict=True)]
        if all(_is_cumulative(each) for each in self._by_latency(increment).values()):
            self._ring.add(before.moment, moment, [increment], interval)

    def window(self, newest: float) -> dict[Latency, Buckets]:
        """Return how many observations each bucket got over the window, cumulative as on a page.

        The window reaches back from the newest page *with histograms*: from ``newest``, the newest poll of
        all, it would lose an increment at its far end before it gets one at its near end. Empty where that
        page is so old that it says nothing of now.
        """
        if newest - self._newest > GONE_PAGES * self._interval:
            return {}
        (rows,) = self._ring.since(self._newest - self._length - self._interval / 2)
        if len(rows) < 2:  # noqa: PLR2004 - a first row and a last one
            return {}
        return self._by_latency(difference(rows[0], rows[-1]))

    def _by_latency(self, counts: Sequence[int]) -> dict[Latency, Buckets]:
        """Split the counts of all histograms, behind one another, into those of each."""
        histograms: dict[Latency, Buckets] = {}
        start = 0
        for latency, bounds in self._bounds:
            histograms[latency] = Buckets(bounds, tuple(counts[start : start + len(bounds)]))
            start += len(bounds)
        return histograms


def _is_cumulative(buckets: Buckets) -> bool:
    """Return whether no bucket got fewer observations than the one below it, and none lost any."""
    return all(lower <= higher for lower, higher in pairwise((0, *buckets.counts)))
