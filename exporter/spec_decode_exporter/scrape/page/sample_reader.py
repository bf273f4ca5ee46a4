"""Series in, one sample for each engine out.

The plan of how a page's values become samples depends on the page's layout alone, so it is made
once and used for as long as the layout holds: from one second to the next, that is always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple
from weakref import WeakValueDictionary

from spec_decode_exporter.core.capacity import fair_share
from spec_decode_exporter.core.cooperative_yield import Pausing
from spec_decode_exporter.scrape.page.engine_table import BUCKET_NAMES, MEANINGS, Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.layout_map import (
    MAX_POSITIONS,
    EngineLayout,
    LayoutMap,
    PageSeries,
    layout_map_of,
)
from spec_decode_exporter.scrape.page.parser import SLICE, Layout, read_page, read_values
from spec_decode_exporter.scrape.page.sample import Buckets, EngineName, PageReading, Sample
from spec_decode_exporter.scrape.poll_errors import PageError

MAX_COUNT = 2**53
"""From here on a float no longer counts by ones, so no server's counter can be right."""
MAX_REQUESTS = 2.0**20
"""More requests than this cannot run or wait on one engine: the gauge is absent."""

SMALL_LAYOUT = 8 * 1024
"""Bytes of a page whose layout is always kept: it takes some 100 kB."""

_NANOSECONDS = 10**9
_ENGINES_SLICE = 16
"""Engines whose samples are made from one pause to the next: a few milliseconds of work."""
_NAMES = {True: frozenset(MEANINGS), False: frozenset(MEANINGS) - BUCKET_NAMES}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Known:
    """A layout, and what the values of a page of that layout are."""

    layout: Layout
    plan: LayoutMap
    size: int
    """Bytes of the page: its layout takes 10 to 18 times as much."""


_shared: WeakValueDictionary[int, _Known] = WeakValueDictionary()
"""Replicas have pages of one layout, of 50 kB and more: those of a fleet share it, as long as one has it."""


def _known(layout: Layout, size: int) -> Pausing[_Known]:
    """Return what is known of the layout, which another target's reader may have found out already."""
    key = hash((tuple(layout.starts), tuple(layout.places)))
    if len(layout.places) > SLICE:
        yield
    known = _shared.get(key)
    if known is None or known.layout != layout:
        plan = yield from layout_map_of(layout)
        known = _shared[key] = _Known(layout, plan, size)
    return known


class SampleReader:
    """Reads the pages of one target; keeps the layout of the last one, so that the next costs less."""

    def __init__(self, layout_bytes: Callable[[], float] = lambda: inf) -> None:
        """Keep layouts as long as those of all readers are of ``layout_bytes`` bytes of pages at most.

        Beyond that, a page that is larger than its fair share is read as a new one each time.
        """
        self._layout_bytes = layout_bytes
        self._known: dict[bool, _Known] = {}
        self.shown = PageSeries()
        """What the newest page shows; of its histograms only if they were read."""

    def read(self, page: bytes, *, with_latencies: bool) -> Pausing[PageReading]:
        """Read a page; with the histograms' buckets, which cost most, only when asked.

        Only a large page of a new layout takes so long that there are pauses.

        Raises:
            PageError: nothing of the page can be used.
        """
        known = yield from self._read_again(page, with_latencies=with_latencies)
        if known is None:
            known = yield from self._read_first(page, with_latencies=with_latencies)
        plan, values = known
        start = next((values[place] for place in plan.process_start), None)
        samples: dict[EngineName, Sample] = {}
        for number, (name, engine) in enumerate(plan.engines.items(), 1):
            samples[name] = _sample(engine, values, start, with_latencies=with_latencies)
            if number % _ENGINES_SLICE == 0:
                yield
        self.shown = plan.shown
        self._release_layouts()
        return PageReading(plan.kind, plan.front_end, samples)

    def _read_again(
        self, page: bytes, *, with_latencies: bool
    ) -> Pausing[tuple[LayoutMap, list[float]] | None]:
        """Read the page by a layout that is known, if it has one."""
        if with_latencies in self._known:
            known = self._known[with_latencies]
            values = yield from read_values(known.layout, page)
            if values is not None:
                return known.plan, values
        if with_latencies or True not in self._known:
            return None
        # Whole pages are laid out alike with and without: they share one layout, which is large.
        layout = self._known[True].layout.only(_NAMES[False])
        values = yield from read_values(layout, page)
        if values is None:
            return None
        plan = yield from self._keep(layout, len(page), with_latencies=False)
        return plan, values

    def _read_first(self, page: bytes, *, with_latencies: bool) -> Pausing[tuple[LayoutMap, list[float]]]:
        # Before the new layout is made: two of the largest would take twice the memory.
        self._known.pop(with_latencies, None)
        layout, values = yield from read_page(page, _NAMES[with_latencies])
        if with_latencies:
            self._known.pop(False, None)
        plan = yield from self._keep(layout, len(page), with_latencies=with_latencies)
        return plan, values

    def _keep(self, layout: Layout, size: int, *, with_latencies: bool) -> Pausing[LayoutMap]:
        known = self._known[with_latencies] = yield from _known(layout, size)
        return known.plan

    def _release_layouts(self) -> None:
        """Release layouts of large pages, if those of all readers are too many."""
        largest = max((known.size for known in self._known.values()), default=0)
        if largest <= SMALL_LAYOUT:
            return
        sizes = [known.size for known in _shared.values()]
        most = self._layout_bytes()
        if sum(sizes) > most and largest > fair_share(sizes, int(most)):
            self._known.clear()


def _sample(
    plan: EngineLayout, values: Sequence[float], start: float | None, *, with_latencies: bool
) -> Sample:
    positions = plan.positions
    created = max((values[place] for place in plan.created), default=start)
    return Sample(
        counters=tuple(
            _count(values, places, _SCALE.get(counter, 1)) for counter, places in enumerate(plan.counters)
        ),
        positions=tuple(
            _count(values, positions.get(position, ()), 1) or 0
            for position in range(max(positions, default=-1) + 1)
        ),
        gauges=tuple(_gauge(GAUGES[gauge], values, plan.gauges[gauge]) for gauge in Gauge),
        created=created if created is not None and isfinite(created) else None,
        latencies=_latencies(plan, values) if with_latencies else None,
    )


_SCALE = {
    int(counter): _NANOSECONDS for counter in (Counter.DECODE_NANOSECONDS, Counter.END_TO_END_NANOSECONDS)
}


def _count(values: Sequence[float], places: Sequence[int], scale: int) -> int | None:
    """Add up a counter's series as exact integers; None if the page has none of them."""
    if not places:
        return None
    total = 0
    for place in places:
        value = values[place]
        # Written so that NaN fails too.
        if not 0 <= value < MAX_COUNT:
            raise PageError(f"a counter has the value {value}, which no counter can have")
        total += round(value * scale)
    if total >= MAX_COUNT * scale:
        raise PageError(f"a counter's series add up to {total}, which no counter can have")
    return total


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class _GaugeRow(NamedTuple):
    """Rule that makes one value of a gauge's series, and the largest value that a server can mean."""

    combine: Callable[[Sequence[float]], float]
    most: float


GAUGES: dict[Gauge, _GaugeRow] = {
    Gauge.RUNNING_REQUESTS: _GaugeRow(sum, MAX_REQUESTS),
    Gauge.WAITING_REQUESTS: _GaugeRow(sum, MAX_REQUESTS),
    Gauge.KV_CACHE_USAGE: _GaugeRow(_mean, 1.0),
    Gauge.REPORTED_ACCEPTANCE_RATIO: _GaugeRow(_mean, 1.0),
    Gauge.REPORTED_ACCEPTANCE_LENGTH: _GaugeRow(_mean, MAX_POSITIONS + 1),
}


def _gauge(row: _GaugeRow, values: Sequence[float], places: Sequence[int]) -> float | None:
    """Combine a gauge's series; a value that no server can mean is absent. Not a number is no error."""
    possible = [values[place] for place in places if 0 <= values[place] <= row.most]
    found = row.combine(possible) if possible else None
    return found if found is None or found <= row.most else None


def _latencies(plan: EngineLayout, values: Sequence[float]) -> dict[Latency, Buckets]:
    return {
        latency: Buckets(
            tuple(sorted(bounds)),
            tuple(_count(values, bounds[bound], 1) or 0 for bound in sorted(bounds)),
        )
        for latency, bounds in plan.buckets.items()
        # Without +Inf the histogram does not say how many observations there are.
        if inf in bounds
    }
