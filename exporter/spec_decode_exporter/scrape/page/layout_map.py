"""Layout map: the places of each engine's quantities among the values of a page.

A page is read as one kind of engine: that of its first series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import NamedTuple

from spec_decode_exporter.core.cooperative_yield import Pausing
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.page.engine_table import (
    BUCKET_NAMES,
    ENGINE_LABELS,
    MEANINGS,
    MODEL_LABEL,
    RANK_LABELS,
    Counter,
    EngineKind,
    EngineMark,
    Gauge,
    Latency,
    Meaning,
    TokenLengths,
)
from spec_decode_exporter.scrape.page.parser import MAX_NUMBER_CHARACTERS, SLICE, Layout, ParsedSeries
from spec_decode_exporter.scrape.page.sample import EngineName

MAX_ENGINES = 256
MAX_POSITIONS = 128
MAX_POSITIONS_TOTAL = 2**11
"""Maximum draft positions of all engines of a page: each is a column in every window, and exported."""
MAX_SECONDS = 1e9
"""Maximum finite upper bound of a bucket: of a latency, in seconds, 30 years."""
MAX_NAME = 1024
"""Maximum characters of an engine's name, which is a label of every exported series."""
MAX_NAMES_TOTAL = 2**15
"""Maximum characters of all engines' names of a target: 128 for each of 256 engines."""
MAX_BUCKETS = 128
"""Maximum buckets of a histogram. vLLM's have up to 30; each is a column in the longest window."""

_SPECULATION = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})

_Rank = tuple[tuple[int, str], ...]


class PageSeries(NamedTuple):
    """Wanted series on a page."""

    names: frozenset[bytes] = frozenset()
    """Sample names, with those of histograms."""
    series: frozenset[ParsedSeries] = frozenset()
    """Series, without histograms."""


@dataclass(slots=True)
class EngineLayout:
    """Places of the values of each quantity of one engine."""

    counters: list[list[int]] = field(default_factory=lambda: [[] for _ in Counter])
    gauges: list[list[int]] = field(default_factory=lambda: [[] for _ in Gauge])
    created: list[int] = field(default_factory=list)
    positions: dict[int, list[int]] = field(default_factory=dict)
    buckets: dict[Latency | TokenLengths, dict[float, list[int]]] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        """Number of draft positions, up to the last one on the page."""
        return max(self.positions, default=-1) + 1


@dataclass(frozen=True, slots=True)
class LayoutMap:
    """Meaning of all values of a page."""

    kind: str
    front_end: str
    engines: dict[EngineName, EngineLayout]
    process_start: tuple[int, ...]
    """Place of the process' start, if the page has exactly one."""
    shown: PageSeries


class MatchedSeries(NamedTuple):
    """Wanted series on the page: the place of its value, and its meaning."""

    place: int
    meaning: Meaning
    labels: dict[str, str]
    engine: EngineName
    rank: _Rank


def layout_map_of(layout: Layout) -> Pausing[LayoutMap]:
    """Map a layout: assign each wanted value to an engine and a quantity."""
    meanings = [MEANINGS[series.name] for series in layout.series]
    is_large = len(meanings) > SLICE
    if is_large:
        yield
    kind, prefix = next(((each.kind, each.prefix) for each in meanings if each.kind), (None, ""))
    matched: list[MatchedSeries] = []
    for place, meaning in enumerate(meanings):
        if meaning.kind and (meaning.kind, meaning.prefix) == (kind, prefix):
            matched.append(_matched(place, meaning, layout.series[place]))
        if place % SLICE == SLICE - 1:
            yield
    quantities = {series.meaning.quantity for series in matched}
    legacy = EngineMark.V0 in quantities
    created = EngineMark.CREATED in quantities
    start = _process_start(meanings)
    if is_large:
        yield
    engines = yield from _engine_layouts(matched, legacy=legacy)
    places = (*start, *(series.place for series in matched))
    shown = yield from _page_series([layout.series[place] for place in places])
    return LayoutMap(
        kind.name if kind else "",
        "v0" if legacy else _front_end(kind, prefix, open_metrics=layout.open_metrics, created=created),
        engines,
        start,
        shown,
    )


def _matched(place: int, meaning: Meaning, series: ParsedSeries) -> MatchedSeries:
    labels = dict(series.labels)
    # A server with a single engine may not name it.
    engine = next(filter(None, map(labels.get, ENGINE_LABELS)), "0")
    name = EngineName(labels.get(MODEL_LABEL, ""), engine)
    if max(map(len, name)) > MAX_NAME:
        raise PageError(f"an engine's name has more than {MAX_NAME} characters")
    rank = tuple((len(labels[label]), labels[label]) for label in RANK_LABELS if label in labels)
    return MatchedSeries(place, meaning, labels, name, rank)


def _front_end(kind: EngineKind | None, prefix: str, *, open_metrics: bool, created: bool) -> str:
    if kind is None or kind.name != "vllm":
        return ""
    if prefix.startswith("ray"):
        return "ray"
    # The Rust front end always writes OpenMetrics, without creation times.
    return "rust" if open_metrics and not created else "python"


def _process_start(meanings: Sequence[Meaning]) -> tuple[int, ...]:
    places = tuple(place for place, each in enumerate(meanings) if each.quantity is EngineMark.PROCESS_START)
    return places if len(places) == 1 else ()


def _page_series(series: Sequence[ParsedSeries]) -> Pausing[PageSeries]:
    without_buckets: set[ParsedSeries] = set()
    for begin in range(0, len(series), SLICE):
        if begin:
            yield
        part = series[begin : begin + SLICE]
        without_buckets.update(each for each in part if each.name not in BUCKET_NAMES)
    return PageSeries(frozenset(each.name for each in series), frozenset(without_buckets))


def _engine_layouts(
    matched: Sequence[MatchedSeries], *, legacy: bool
) -> Pausing[dict[EngineName, EngineLayout]]:
    """Group the series by engine. Several series of one quantity (replicas) add up.

    Older names of a quantity are ignored if a newer one is present. Of the ranks of parallel workers, each of
    which SGLang can publish, the lowest counts.
    """
    newest: dict[str, int] = {}
    lowest: dict[EngineName, _Rank] = {}
    for series in matched:
        row, age = series.meaning.series.names[0], series.meaning.rank
        newest[row] = min(age, newest.get(row, age))
        if series.rank:
            lowest[series.engine] = min(series.rank, lowest.get(series.engine, series.rank))
    if len(matched) > SLICE:
        yield
    engines: defaultdict[EngineName, EngineLayout] = defaultdict(EngineLayout)
    for number, series in enumerate(matched):
        is_newest = series.meaning.rank == newest[series.meaning.series.names[0]]
        if is_newest and series.rank in ((), lowest.get(series.engine)):
            _add_place(engines[series.engine], series)
        if number % SLICE == SLICE - 1:
            yield
    _check_sizes(engines)
    return {name: _without_counters(engine) if legacy else engine for name, engine in engines.items()}


def _check_sizes(engines: Mapping[EngineName, EngineLayout]) -> None:
    """Reject a page whose engines would exceed the limits of windows, memory or the exported page."""
    if len(engines) > MAX_ENGINES:
        raise PageError(f"the page shows {len(engines)} engines; at most {MAX_ENGINES} are watched")
    characters = sum(len(text) for name in engines for text in name)
    if characters > MAX_NAMES_TOTAL:
        raise PageError(
            f"the engines' names have {characters} characters together; at most {MAX_NAMES_TOTAL} are read"
        )
    buckets = max(
        (len(bounds) for engine in engines.values() for bounds in engine.buckets.values()), default=0
    )
    if buckets > MAX_BUCKETS:
        raise PageError(f"a histogram has {buckets} buckets; at most {MAX_BUCKETS} are read")
    positions = sum(max(engine.positions, default=-1) + 1 for engine in engines.values())
    if positions > MAX_POSITIONS_TOTAL:
        raise PageError(
            f"the page shows {positions} draft positions; at most {MAX_POSITIONS_TOTAL} are watched"
        )


def _without_counters(engine: EngineLayout) -> EngineLayout:
    """Remove V0's counters of speculation: they add up sums of sums (vLLM issue 15415)."""
    counters = [[] if counter in _SPECULATION else engine.counters[counter] for counter in Counter]
    return EngineLayout(counters, engine.gauges, engine.created, {}, engine.buckets)


def _add_place(engine: EngineLayout, matched: MatchedSeries) -> None:
    labels, place = matched.labels, matched.place
    match matched.meaning.quantity:
        case Counter() as counter:
            engine.counters[counter].append(place)
        case Gauge() as gauge:
            engine.gauges[gauge].append(place)
        case Latency() | TokenLengths() as histogram:
            bound = _bound(labels.get("le"))
            engine.buckets.setdefault(histogram, {}).setdefault(bound, []).append(place)
        case EngineMark.CREATED:
            engine.created.append(place)
        case EngineMark.POSITION_ACCEPTED:
            engine.positions.setdefault(_position(labels.get("position")), []).append(place)
        case _:
            pass


def _bound(text: str | None) -> float:
    try:
        bound = float(text or "") if len(text or "") <= MAX_NUMBER_CHARACTERS else nan
    except ValueError:
        bound = nan
    # This comparison also rejects NaN.
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
