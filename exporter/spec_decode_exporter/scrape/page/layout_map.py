"""What the values of a page are: by its layout, for each quantity of each engine, the places of its values.

A page is read as one engine's kind: that of its first series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import NamedTuple

from spec_decode_exporter.core.cooperative_yield import Pausing
from spec_decode_exporter.scrape.page.engine_table import (
    BUCKET_NAMES,
    MEANINGS,
    Counter,
    EngineKind,
    EngineMark,
    Gauge,
    Latency,
    Meaning,
)
from spec_decode_exporter.scrape.page.parser import MAX_NUMBER_CHARACTERS, SLICE, Layout, ParsedSeries
from spec_decode_exporter.scrape.page.sample import EngineName
from spec_decode_exporter.scrape.poll_errors import PageError

MAX_ENGINES = 256
MAX_POSITIONS = 128
MAX_POSITIONS_TOTAL = 2**11
"""Draft positions of all engines of a page: each has a column in every window, and samples on our page."""
MAX_SECONDS = 1e9
"""Largest finite upper bound of a latency bucket, in seconds: 30 years."""
MAX_NAME = 1024
"""Of so many characters an engine's name may be: it becomes a label of every series that is exported."""
MAX_NAMES_TOTAL = 2**15
"""Characters of all engines' names of a target: 128 of each of 256, in some 150 series of each."""
MAX_BUCKETS = 128
"""Buckets of one histogram. vLLM's have 30 at most; each has a column in the longest window."""

_RANKS = ("pp_rank", "tp_rank", "moe_ep_rank")
_SPECULATION = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})

_Rank = tuple[tuple[int, str], ...]


class PageSeries(NamedTuple):
    """What of the wanted samples a page shows."""

    names: frozenset[bytes] = frozenset()
    """Their names."""
    series: frozenset[ParsedSeries] = frozenset()
    """The series themselves, histograms apart."""


@dataclass(slots=True)
class EngineLayout:
    """For every quantity of one engine, the places of the values that make it up."""

    counters: list[list[int]] = field(default_factory=lambda: [[] for _ in Counter])
    gauges: list[list[int]] = field(default_factory=lambda: [[] for _ in Gauge])
    created: list[int] = field(default_factory=list)
    positions: dict[int, list[int]] = field(default_factory=dict)
    buckets: dict[Latency, dict[float, list[int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayoutMap:
    """What all values of a page are."""

    kind: str
    front_end: str
    engines: dict[EngineName, EngineLayout]
    process_start: tuple[int, ...]
    """The place of the process' start, if the page tells of just one process."""
    shown: PageSeries


class MatchedSeries(NamedTuple):
    """One wanted series on the page: where its value is, and of what."""

    place: int
    meaning: Meaning
    labels: dict[str, str]
    engine: EngineName
    rank: _Rank


def layout_map_of(layout: Layout) -> Pausing[LayoutMap]:
    """Find out what the values of a page are. A page is read as one engine's: that of its first series."""
    meanings = [MEANINGS[series.name] for series in layout.series]
    is_large = len(meanings) > SLICE
    if is_large:
        yield
    kind, prefix = next(((one.kind, one.prefix) for one in meanings if one.kind), (None, ""))
    matched: list[MatchedSeries] = []
    for place, meaning in enumerate(meanings):
        if meaning.kind and (meaning.kind, meaning.prefix) == (kind, prefix):
            matched.append(_matched(place, meaning, layout.series[place]))
        if place % SLICE == SLICE - 1:
            yield
    quantities = {matched.meaning.quantity for matched in matched}
    legacy = EngineMark.V0 in quantities
    created = EngineMark.CREATED in quantities
    start = _process_start(meanings)
    if is_large:
        yield
    engines = yield from _engine_plans(matched, legacy=legacy)
    shown = yield from _shown([layout.series[place] for place in (*start, *(one.place for one in matched))])
    return LayoutMap(
        kind.name if kind else "",
        "v0" if legacy else _front_end(kind, prefix, open_metrics=layout.open_metrics, created=created),
        engines,
        start,
        shown,
    )


def _matched(place: int, meaning: Meaning, series: ParsedSeries) -> MatchedSeries:
    labels = dict(series.labels)
    # A server that has only one engine may not name it.
    name = EngineName(labels.get("model_name", ""), labels.get("engine") or labels.get("dp_rank") or "0")
    if max(map(len, name)) > MAX_NAME:
        raise PageError(f"an engine's name has more than {MAX_NAME} characters")
    rank = tuple((len(labels[name]), labels[name]) for name in _RANKS if name in labels)
    return MatchedSeries(place, meaning, labels, name, rank)


def _front_end(kind: EngineKind | None, prefix: str, *, open_metrics: bool, created: bool) -> str:
    if kind is None or kind.name != "vllm":
        return ""
    if prefix.startswith("ray"):
        return "ray"
    # The Rust front end writes OpenMetrics whatever is asked for, and no creation times.
    return "rust" if open_metrics and not created else "python"


def _process_start(meanings: Sequence[Meaning]) -> tuple[int, ...]:
    places = tuple(place for place, one in enumerate(meanings) if one.quantity is EngineMark.PROCESS_START)
    return places if len(places) == 1 else ()


def _shown(series: Sequence[ParsedSeries]) -> Pausing[PageSeries]:
    without_buckets: set[ParsedSeries] = set()
    for begin in range(0, len(series), SLICE):
        if begin:
            yield
        without_buckets.update(one for one in series[begin : begin + SLICE] if one.name not in BUCKET_NAMES)
    return PageSeries(frozenset(one.name for one in series), frozenset(without_buckets))


def _engine_plans(
    matched: Sequence[MatchedSeries], *, legacy: bool
) -> Pausing[dict[EngineName, EngineLayout]]:
    """Sort the sightings by engine. Several series of one quantity (replicas) add up.

    Left out are older names of what has a newer one, and ranks: SGLang can repeat an engine's series
    for every rank of its parallel workers; the lowest speaks for all.
    """
    newest: dict[str, int] = {}
    lowest: dict[EngineName, _Rank] = {}
    for one in matched:
        row, age = one.meaning.series.names[0], one.meaning.rank
        newest[row] = min(age, newest.get(row, age))
        if one.rank:
            lowest[one.engine] = min(one.rank, lowest.get(one.engine, one.rank))
    if len(matched) > SLICE:
        yield
    plans: defaultdict[EngineName, EngineLayout] = defaultdict(EngineLayout)
    for number, one in enumerate(matched):
        is_newest = one.meaning.rank == newest[one.meaning.series.names[0]]
        if is_newest and one.rank in ((), lowest.get(one.engine)):
            _place(plans[one.engine], one)
        if number % SLICE == SLICE - 1:
            yield
    _check_sizes(plans)
    return {name: _without_counters(plan) if legacy else plan for name, plan in plans.items()}


def _check_sizes(plans: Mapping[EngineName, EngineLayout]) -> None:
    """Refuse a page whose engines would take too much of windows, of memory or of our own page."""
    if len(plans) > MAX_ENGINES:
        raise PageError(f"the page shows {len(plans)} engines; at most {MAX_ENGINES} are watched")
    characters = sum(len(text) for name in plans for text in name)
    if characters > MAX_NAMES_TOTAL:
        raise PageError(
            f"the engines' names have {characters} characters together; at most {MAX_NAMES_TOTAL} are read"
        )
    buckets = max((len(bounds) for plan in plans.values() for bounds in plan.buckets.values()), default=0)
    if buckets > MAX_BUCKETS:
        raise PageError(f"a histogram has {buckets} buckets; at most {MAX_BUCKETS} are read")
    positions = sum(max(plan.positions, default=-1) + 1 for plan in plans.values())
    if positions > MAX_POSITIONS_TOTAL:
        raise PageError(
            f"the page shows {positions} draft positions; at most {MAX_POSITIONS_TOTAL} are watched"
        )


def _without_counters(plan: EngineLayout) -> EngineLayout:
    """Leave out V0's counters of speculation: they add up sums of sums (vLLM issue 15415)."""
    counters = [[] if counter in _SPECULATION else plan.counters[counter] for counter in Counter]
    return EngineLayout(counters, plan.gauges, plan.created, {}, plan.buckets)


def _place(plan: EngineLayout, matched: MatchedSeries) -> None:
    labels, place = matched.labels, matched.place
    match matched.meaning.quantity:
        case Counter() as counter:
            plan.counters[counter].append(place)
        case Gauge() as gauge:
            plan.gauges[gauge].append(place)
        case Latency() as latency:
            bound = _bound(labels.get("le"))
            plan.buckets.setdefault(latency, {}).setdefault(bound, []).append(place)
        case EngineMark.CREATED:
            plan.created.append(place)
        case EngineMark.POSITION_ACCEPTED:
            plan.positions.setdefault(_position(labels.get("position")), []).append(place)
        case _:
            pass


def _bound(text: str | None) -> float:
    try:
        bound = float(text or "") if len(text or "") <= MAX_NUMBER_CHARACTERS else nan
    except ValueError:
        bound = nan
    # Written so that NaN fails too.
    if not (0 <= bound <= MAX_SECONDS or bound == inf):
        raise PageError(
            "a histogram bucket has no readable upper bound in its label le: "
            f"a number from 0 to {MAX_SECONDS:.0e} (seconds) or +Inf"
        )
    return bound


def _position(text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_POSITIONS)):
        raise PageError("a count of accepted tokens has no readable number in its label position")
    position = int(text)
    if position >= MAX_POSITIONS:
        raise PageError(f"position {position} is beyond the {MAX_POSITIONS} draft positions that are watched")
    return position
