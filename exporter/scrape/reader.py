"""Series in, one sample for each engine out.

The plan of how a page's values become samples depends on the page's layout alone, so it is made
once and used for as long as the layout holds: from one second to the next, that is always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, nan
from typing import NamedTuple
from weakref import WeakValueDictionary

from exporter.scrape.engines import (
    BUCKET_NAMES,
    MEANINGS,
    Counter,
    EngineKind,
    Gauge,
    Latency,
    Mark,
    Meaning,
)
from exporter.scrape.errors import PageError
from exporter.scrape.page import SLICE, Layout, Series, read_page, read_values
from exporter.scrape.sample import Buckets, EngineName, Reading, Sample
from exporter.scrape.slices import Pausing

MOST_ENGINES = 256
MOST_POSITIONS = 128
MOST_POSITIONS_TOGETHER = 2**13
"""Draft positions of all engines of a page: each has a column in every window, and samples on our page."""
MOST_NAME = 1024
"""Of so many characters an engine's name may be: it becomes a label of every series that is exported."""
MOST_COUNT = 2**53
"""From here on a float no longer counts by ones, so no server's counter can be right."""

_NANOSECONDS = 10**9
_RANKS = ("pp_rank", "tp_rank", "moe_ep_rank")
_SPECULATION = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})
_NAMES = {True: frozenset(MEANINGS), False: frozenset(MEANINGS) - BUCKET_NAMES}

_Rank = tuple[tuple[int, str], ...]


class Shown(NamedTuple):
    """What of the wanted samples a page shows."""

    names: frozenset[bytes] = frozenset()
    """Their names."""
    series: frozenset[Series] = frozenset()
    """The series themselves, histograms apart."""


@dataclass(slots=True)
class _EnginePlan:
    """For every quantity of one engine, the places of the values that make it up."""

    counters: list[list[int]] = field(default_factory=lambda: [[] for _ in Counter])
    gauges: list[list[int]] = field(default_factory=lambda: [[] for _ in Gauge])
    created: list[int] = field(default_factory=list)
    positions: dict[int, list[int]] = field(default_factory=dict)
    buckets: dict[Latency, dict[float, list[int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Plan:
    kind: str
    front_end: str
    engines: dict[EngineName, _EnginePlan]
    process_start: tuple[int, ...]
    """The place of the process' start, if the page tells of just one process."""
    shown: Shown


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Known:
    """A layout, and what the values of a page of that layout are."""

    layout: Layout
    plan: _Plan


_shared: WeakValueDictionary[int, _Known] = WeakValueDictionary()
"""Replicas have pages of one layout, of 50 kB and more: those of a fleet share it, as long as one has it."""


def _known(layout: Layout) -> Pausing[_Known]:
    """Return what is known of the layout, which another target's reader may have found out already."""
    key = hash((tuple(layout.starts), tuple(layout.places)))
    known = _shared.get(key)
    if known is None or known.layout != layout:
        plan = yield from _plan(layout)
        known = _shared[key] = _Known(layout, plan)
    return known


class _Sighting(NamedTuple):
    """One wanted series on the page: where its value is, and of what."""

    place: int
    meaning: Meaning
    labels: dict[str, str]
    engine: EngineName
    rank: _Rank


class Reader:
    """Reads the pages of one target; keeps the layout of the last one, so that the next costs less."""

    def __init__(self) -> None:
        self._known: dict[bool, _Known] = {}
        self.shown = Shown()
        """What the newest page shows; of its histograms only if they were read."""

    def read(self, page: bytes, *, with_latencies: bool) -> Pausing[Reading]:
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
        samples = {
            name: _sample(engine, values, start, with_latencies=with_latencies)
            for name, engine in plan.engines.items()
        }
        self.shown = plan.shown
        return Reading(plan.kind, plan.front_end, samples)

    def _read_again(self, page: bytes, *, with_latencies: bool) -> Pausing[tuple[_Plan, list[float]] | None]:
        """Read the page by a layout that is known, if it has one."""
        if with_latencies in self._known:
            known = self._known[with_latencies]
            values = read_values(known.layout, page)
            if values is not None:
                return known.plan, values
        if with_latencies or True not in self._known:
            return None
        # Whole pages are laid out alike with and without: they share one layout, which is large.
        layout = self._known[True].layout.only(_NAMES[False])
        values = read_values(layout, page)
        if values is None:
            return None
        plan = yield from self._keep(layout, with_latencies=False)
        return plan, values

    def _read_first(self, page: bytes, *, with_latencies: bool) -> Pausing[tuple[_Plan, list[float]]]:
        layout, values = yield from read_page(page, _NAMES[with_latencies])
        if with_latencies:
            self._known.pop(False, None)
        plan = yield from self._keep(layout, with_latencies=with_latencies)
        return plan, values

    def _keep(self, layout: Layout, *, with_latencies: bool) -> Pausing[_Plan]:
        known = self._known[with_latencies] = yield from _known(layout)
        return known.plan


def _plan(layout: Layout) -> Pausing[_Plan]:
    """Find out what the values of a page are. A page is read as one engine's: that of its first series."""
    meanings = [MEANINGS[series.name] for series in layout.series]
    kind, prefix = next(((one.kind, one.prefix) for one in meanings if one.kind), (None, ""))
    sightings: list[_Sighting] = []
    for place, meaning in enumerate(meanings):
        if meaning.kind and (meaning.kind, meaning.prefix) == (kind, prefix):
            sightings.append(_sighting(place, meaning, layout.series[place]))
        if place % SLICE == SLICE - 1:
            yield
    quantities = {sighting.meaning.quantity for sighting in sightings}
    legacy = Mark.V0 in quantities
    created = Mark.CREATED in quantities
    start = _process_start(meanings)
    engines = yield from _engine_plans(sightings, legacy=legacy)
    return _Plan(
        kind.name if kind else "",
        "v0" if legacy else _front_end(kind, prefix, open_metrics=layout.open_metrics, created=created),
        engines,
        start,
        _shown([layout.series[place] for place in (*start, *(one.place for one in sightings))]),
    )


def _sighting(place: int, meaning: Meaning, series: Series) -> _Sighting:
    labels = dict(series.labels)
    # A server that has only one engine may not name it.
    name = EngineName(labels.get("model_name", ""), labels.get("engine") or labels.get("dp_rank") or "0")
    if max(map(len, name)) > MOST_NAME:
        raise PageError(f"an engine's name has more than {MOST_NAME} characters")
    rank = tuple((len(labels[name]), labels[name]) for name in _RANKS if name in labels)
    return _Sighting(place, meaning, labels, name, rank)


def _front_end(kind: EngineKind | None, prefix: str, *, open_metrics: bool, created: bool) -> str:
    if kind is None or kind.name != "vllm":
        return ""
    if prefix.startswith("ray"):
        return "ray"
    # The Rust front end writes OpenMetrics whatever is asked for, and no creation times.
    return "rust" if open_metrics and not created else "python"


def _process_start(meanings: Sequence[Meaning]) -> tuple[int, ...]:
    places = tuple(place for place, one in enumerate(meanings) if one.quantity is Mark.PROCESS_START)
    return places if len(places) == 1 else ()


def _shown(series: Sequence[Series]) -> Shown:
    names = frozenset(one.name for one in series)
    return Shown(names, frozenset(one for one in series if one.name not in BUCKET_NAMES))


def _engine_plans(sightings: Sequence[_Sighting], *, legacy: bool) -> Pausing[dict[EngineName, _EnginePlan]]:
    """Sort the sightings by engine. Several series of one quantity (replicas) add up.

    Left out are older names of what has a newer one, and ranks: SGLang can repeat an engine's series
    for every rank of its parallel workers; the lowest speaks for all.
    """
    newest: dict[str, int] = {}
    lowest: dict[EngineName, _Rank] = {}
    for one in sightings:
        row, age = one.meaning.series.names[0], one.meaning.rank
        newest[row] = min(age, newest.get(row, age))
        if one.rank:
            lowest[one.engine] = min(one.rank, lowest.get(one.engine, one.rank))
    plans: defaultdict[EngineName, _EnginePlan] = defaultdict(_EnginePlan)
    for number, one in enumerate(sightings):
        is_newest = one.meaning.rank == newest[one.meaning.series.names[0]]
        if is_newest and one.rank in ((), lowest.get(one.engine)):
            _place(plans[one.engine], one)
        if number % SLICE == SLICE - 1:
            yield
    if len(plans) > MOST_ENGINES:
        raise PageError(f"the page shows {len(plans)} engines; at most {MOST_ENGINES} are watched")
    positions = sum(max(plan.positions, default=-1) + 1 for plan in plans.values())
    if positions > MOST_POSITIONS_TOGETHER:
        raise PageError(
            f"the page shows {positions} draft positions; at most {MOST_POSITIONS_TOGETHER} are watched"
        )
    return {name: _without_counters(plan) if legacy else plan for name, plan in plans.items()}


def _without_counters(plan: _EnginePlan) -> _EnginePlan:
    """Leave out V0's counters of speculation: they add up sums of sums (vLLM issue 15415)."""
    counters = [[] if counter in _SPECULATION else plan.counters[counter] for counter in Counter]
    return _EnginePlan(counters, plan.gauges, plan.created, {}, plan.buckets)


def _place(plan: _EnginePlan, sighting: _Sighting) -> None:
    labels, place = sighting.labels, sighting.place
    match sighting.meaning.quantity:
        case Counter() as counter:
            plan.counters[counter].append(place)
        case Gauge() as gauge:
            plan.gauges[gauge].append(place)
        case Latency() as latency:
            bound = _bound(labels.get("le"))
            plan.buckets.setdefault(latency, {}).setdefault(bound, []).append(place)
        case Mark.CREATED:
            plan.created.append(place)
        case Mark.POSITION_ACCEPTED:
            plan.positions.setdefault(_position(labels.get("position")), []).append(place)
        case _:
            pass


def _bound(text: str | None) -> float:
    try:
        bound = float(text or "")
    except ValueError:
        bound = nan
    if isnan(bound):
        raise PageError("a histogram bucket has no readable upper bound in its label le")
    return bound


def _position(text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(MOST_POSITIONS)):
        raise PageError("a count of accepted tokens has no readable number in its label position")
    position = int(text)
    if position >= MOST_POSITIONS:
        raise PageError(
            f"position {position} is beyond the {MOST_POSITIONS} draft positions that are watched"
        )
    return position


def _sample(
    plan: _EnginePlan, values: Sequence[float], start: float | None, *, with_latencies: bool
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
        gauges=tuple(_GAUGE_OF[gauge](values, places) for gauge, places in enumerate(plan.gauges)),
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
        if not 0 <= value < MOST_COUNT:
            raise PageError(f"a counter has the value {value}, which no counter can have")
        total += round(value * scale)
    if total >= MOST_COUNT * scale:
        raise PageError(f"a counter's series add up to {total}, which no counter can have")
    return total


def _present(values: Sequence[float], places: Sequence[int]) -> list[float]:
    return [values[place] for place in places if isfinite(values[place])]


def _total(values: Sequence[float], places: Sequence[int]) -> float | None:
    present = _present(values, places)
    return sum(present) if present else None


def _mean(values: Sequence[float], places: Sequence[int]) -> float | None:
    present = _present(values, places)
    return sum(present) / len(present) if present else None


_GAUGE_OF: dict[int, Callable[[Sequence[float], Sequence[int]], float | None]] = {
    Gauge.RUNNING_REQUESTS: _total,
    Gauge.WAITING_REQUESTS: _total,
    Gauge.KV_CACHE_USAGE: _mean,
    Gauge.REPORTED_ACCEPTANCE_RATIO: _mean,
    Gauge.REPORTED_ACCEPTANCE_LENGTH: _mean,
}


def _latencies(plan: _EnginePlan, values: Sequence[float]) -> dict[Latency, Buckets]:
    return {
        latency: Buckets(
            tuple(sorted(bounds)),
            tuple(_count(values, bounds[bound], 1) or 0 for bound in sorted(bounds)),
        )
        for latency, bounds in plan.buckets.items()
        # Without +Inf the histogram does not say how many observations there are.
        if inf in bounds
    }
