"""Read samples of engines from metrics pages.

The layout map depends only on the page's layout. So it is made once, and used until the layout changes;
usually consecutive pages have the same layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import inf, isfinite
from typing import NamedTuple
from weakref import WeakValueDictionary, finalize

from spec_decode_exporter.core.capacity import fair_share
from spec_decode_exporter.core.cooperative_yield import Pausing
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.page.engine_table import (
    BUCKET_NAMES,
    MEANINGS,
    Counter,
    Gauge,
    Latency,
    TokenLengths,
)
from spec_decode_exporter.scrape.page.layout_map import (
    MAX_POSITIONS,
    EngineLayout,
    LayoutMap,
    PageSeries,
    layout_map_of,
)
from spec_decode_exporter.scrape.page.parser import SLICE, Layout, read_page, read_values
from spec_decode_exporter.scrape.page.sample import Buckets, EngineName, PageReading, Sample

MAX_COUNT = 2**53
"""Exclusive maximum of a counter: from here on a float cannot represent every integer."""
MAX_REQUESTS = 2.0**20
"""Maximum running or waiting requests of an engine; a larger gauge is absent."""

SMALL_LAYOUT = 8 * 1024
"""Maximum bytes of a page whose layout is always kept; it takes some 100 kB."""

_NANOSECONDS = 10**9
_ENGINES_SLICE = 16
"""Engines between two cooperative yields: a few milliseconds of work."""
_NAMES = {True: frozenset(MEANINGS), False: frozenset(MEANINGS) - BUCKET_NAMES}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _MappedLayout:
    """Layout of a page with its map."""

    layout: Layout
    map: LayoutMap
    size: int
    """Bytes of the page; its layout takes 10 to 18 times the memory."""


class _SharedLayouts:
    """Layouts that readers use now. Replicas have the same layout, of 50 kB and more, so they share it."""

    def __init__(self) -> None:
        self._layouts: WeakValueDictionary[int, _MappedLayout] = WeakValueDictionary()
        self.bytes = 0
        """Bytes of the pages of all layouts, kept up to date: each poll of a large page compares them."""

    def get(self, key: int) -> _MappedLayout | None:
        """Return the layout with a hash, or another one with the same."""
        return self._layouts.get(key)

    def add(self, key: int, mapped: _MappedLayout) -> None:
        """Share a layout as long as it is used."""
        self._layouts[key] = mapped
        self.bytes += mapped.size
        finalize(mapped, self._release, mapped.size)

    def sizes(self) -> list[int]:
        """Return the bytes of the page of each layout."""
        return [mapped.size for mapped in self._layouts.values()]

    def _release(self, size: int) -> None:
        self.bytes -= size


_shared = _SharedLayouts()


def _mapped(layout: Layout, size: int) -> Pausing[_MappedLayout]:
    """Map a layout; return the shared result if another target's reader has the same layout."""
    key = hash((tuple(layout.starts), tuple(layout.places)))
    if len(layout.places) > SLICE:
        yield
    mapped = _shared.get(key)
    if mapped is None or mapped.layout != layout:
        layout_map = yield from layout_map_of(layout)
        mapped = _MappedLayout(layout, layout_map, size)
        _shared.add(key, mapped)
    return mapped


class SampleReader:
    """Reader of one target's pages. It keeps the last layout, so that the next page costs less."""

    def __init__(self, layout_bytes: Callable[[], float] = lambda: inf) -> None:
        """Keep layouts while the pages of all readers' layouts have at most ``layout_bytes`` bytes.

        Beyond that, a page larger than its fair share is read without a layout each time.
        """
        self._layout_bytes = layout_bytes
        self._layouts: dict[bool, _MappedLayout] = {}
        self.shown = PageSeries()
        """Wanted series of the newest page; histograms only if they were read."""

    def read(self, page: bytes, *, with_latencies: bool) -> Pausing[PageReading]:
        """Read a page; the histograms' buckets, which cost most, only on request.

        Only a large page of a new layout takes long enough for cooperative yields.

        Raises:
            PageError: The page is unusable.
        """
        result = yield from self._read_known(page, with_latencies=with_latencies)
        if result is None:
            result = yield from self._read_new(page, with_latencies=with_latencies)
        layout_map, values = result
        start = next((values[place] for place in layout_map.process_start), None)
        samples: dict[EngineName, Sample] = {}
        for number, (name, engine) in enumerate(layout_map.engines.items(), 1):
            samples[name] = sample_of(engine, values, start, with_latencies=with_latencies)
            if number % _ENGINES_SLICE == 0:
                yield
        self.shown = layout_map.shown
        self._release_layouts()
        return PageReading(layout_map.kind, layout_map.front_end, samples)

    def _read_known(
        self, page: bytes, *, with_latencies: bool
    ) -> Pausing[tuple[LayoutMap, list[float]] | None]:
        """Read the page by a known layout; return None if it has another one."""
        if with_latencies in self._layouts:
            mapped = self._layouts[with_latencies]
            values = yield from read_values(mapped.layout, page)
            if values is not None:
                return mapped.map, values
        if with_latencies or True not in self._layouts:
            return None
        # Whole pages read with and without histograms share one layout, which is large.
        layout = self._layouts[True].layout.only(_NAMES[False])
        values = yield from read_values(layout, page)
        if values is None:
            return None
        layout_map = yield from self._keep(layout, len(page), with_latencies=False)
        return layout_map, values

    def _read_new(self, page: bytes, *, with_latencies: bool) -> Pausing[tuple[LayoutMap, list[float]]]:
        # Before the new layout exists: two of the largest would take twice the memory.
        self._layouts.pop(with_latencies, None)
        layout, values = yield from read_page(page, _NAMES[with_latencies])
        if with_latencies:
            self._layouts.pop(False, None)
        layout_map = yield from self._keep(layout, len(page), with_latencies=with_latencies)
        return layout_map, values

    def _keep(self, layout: Layout, size: int, *, with_latencies: bool) -> Pausing[LayoutMap]:
        mapped = self._layouts[with_latencies] = yield from _mapped(layout, size)
        return mapped.map

    def _release_layouts(self) -> None:
        """Release the layouts of large pages if those of all readers exceed the limit."""
        limit = self._layout_bytes()
        if _shared.bytes <= limit:
            return
        largest = max((mapped.size for mapped in self._layouts.values()), default=0)
        if largest > SMALL_LAYOUT and largest > fair_share(_shared.sizes(), int(limit)):
            self._layouts.clear()


def sample_of(
    engine: EngineLayout, values: Sequence[float], start: float | None, *, with_latencies: bool
) -> Sample:
    """Return the sample of an engine by the values of its page.

    Args:
        engine: Places of the engine's values.
        values: Values of the page.
        start: Start of the server's process (Unix time), for an engine without creation times.
        with_latencies: Whether to read its histograms.

    Raises:
        PageError: A counter has a value that no counter can have.
    """
    positions = [engine.positions.get(position, ()) for position in range(engine.columns)]
    created = max((values[place] for place in engine.created), default=start)
    return Sample(
        counters=tuple(_counts(values, engine.counters, _SCALES)),
        positions=tuple([count or 0 for count in _counts(values, positions)]),
        gauges=tuple(map(_gauge, GAUGES.values(), repeat(values), engine.gauges)),
        created=created if created is not None and isfinite(created) else None,
        latencies=_latencies(engine, values) if with_latencies else None,
        answer_lengths=_buckets(engine, values, TokenLengths.ANSWERS) if with_latencies else None,
    )


_TIMES = {Counter.DECODE_NANOSECONDS, Counter.END_TO_END_NANOSECONDS, Counter.FIRST_TOKEN_NANOSECONDS}
_SCALES = tuple(_NANOSECONDS if counter in _TIMES else 1 for counter in Counter)
"""Factor of each counter's values."""


def _counts(
    values: Sequence[float], counters: Iterable[Sequence[int]], scales: Iterable[int] = repeat(1)
) -> list[int | None]:
    """Add up each counter's series as exact integers; None for a counter that the page lacks.

    One call for all counters of an engine: a call for each takes a third more time.
    """
    totals: list[int | None] = []
    for places, scale in zip(counters, scales, strict=False):
        total = 0
        for place in places:
            value = values[place]
            # This comparison also rejects NaN.
            if not 0 <= value < MAX_COUNT:
                raise PageError(f"a counter has the value {value}, which no counter can have")
            total += round(value * scale)
        if total >= MAX_COUNT * scale:
            raise PageError(f"a counter's series add up to {total}, which no counter can have")
        totals.append(total if places else None)
    return totals


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class _GaugeRow(NamedTuple):
    """Rule for a gauge: how its series combine, and its maximum plausible value."""

    combine: Callable[[Sequence[float]], float]
    max_value: float


GAUGES: dict[Gauge, _GaugeRow] = {  # in the order of Gauge
    Gauge.RUNNING_REQUESTS: _GaugeRow(sum, MAX_REQUESTS),
    Gauge.WAITING_REQUESTS: _GaugeRow(sum, MAX_REQUESTS),
    Gauge.KV_CACHE_USAGE: _GaugeRow(_mean, 1.0),
    Gauge.REPORTED_ACCEPTANCE_RATIO: _GaugeRow(_mean, 1.0),
    Gauge.REPORTED_ACCEPTANCE_LENGTH: _GaugeRow(_mean, MAX_POSITIONS + 1),
}


def _gauge(row: _GaugeRow, values: Sequence[float], places: Sequence[int]) -> float | None:
    """Combine a gauge's series. NaN and implausible values are absent."""
    if not places:
        return None
    plausible = [values[place] for place in places if 0 <= values[place] <= row.max_value]
    value = row.combine(plausible) if plausible else None
    return value if value is None or value <= row.max_value else None


def _latencies(engine: EngineLayout, values: Sequence[float]) -> dict[Latency, Buckets]:
    names = [histogram for histogram in engine.buckets if isinstance(histogram, Latency)]
    histograms = {latency: _buckets(engine, values, latency) for latency in names}
    return {latency: buckets for latency, buckets in histograms.items() if buckets is not None}


def _buckets(
    engine: EngineLayout, values: Sequence[float], histogram: Latency | TokenLengths
) -> Buckets | None:
    """Read a histogram; None if the page lacks it, or its +Inf, the number of observations."""
    places = engine.buckets.get(histogram, {})
    if inf not in places:
        return None
    bounds = tuple(sorted(places))
    counts = _counts(values, [places[bound] for bound in bounds])
    return Buckets(bounds, tuple([count or 0 for count in counts]))
