"""Samples of the engines on a metrics page: the meaning of each value, and the sums of an engine.

A page is read as one kind of engine: that of its first series. The meaning of its values depends only on the
page's layout. So it is found once, and used until the layout changes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import inf, isfinite, nan
from operator import mul
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.config.types import MAX_LABEL_VALUE
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.scrape import engines
from spec_decode_exporter.scrape.derived import derive, steps_of, verified_width
from spec_decode_exporter.scrape.engines import (
    Counter,
    EngineKind,
    EngineMark,
    Gauge,
    Latency,
    Meaning,
    Quantity,
)
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.layout import (
    Layout,
    ParsedSeries,
    lines_of,
    read_layout,
    values_at,
)

MAX_ENGINES: Final = 256
MAX_POSITIONS_TOTAL: Final = 2**11  # of all engines of a page: each is a column in every window, and exported
MAX_SECONDS: Final = 1e9  # maximum finite upper bound of a bucket: of a latency, in seconds, 30 years
MAX_NAMES_TOTAL: Final = 2**15  # characters of all engines' names of a page, which are labels of all metrics
MAX_BUCKETS: Final = 128  # of a histogram; vLLM's have up to 30. Each is a column in the longest window
_WHOLE: Final = re.compile("[0-9]{1,10}")  # a number in a label
MAX_COUNT: Final = 2**53  # exclusive: from here on a float cannot represent every integer
MAX_GAUGES: Final = {  # in the order of Gauge
    Gauge.RUNNING_REQUESTS: 2.0**20,
    Gauge.WAITING_REQUESTS: 2.0**20,
    Gauge.KV_CACHE_USAGE: 1.0,
    Gauge.REPORTED_ACCEPTANCE_RATIO: 1.0,
    Gauge.REPORTED_ACCEPTANCE_LENGTH: MAX_POSITIONS + 1.0,
    Gauge.DRAFT_STEPS: MAX_POSITIONS,
    Gauge.VERIFIED_TOKENS: MAX_POSITIONS + 1.0,
    Gauge.CAP_LENGTH: MAX_POSITIONS + 1.0,
}
"""Maximum plausible values; a larger gauge is absent."""
SMALL_PAGE: Final = 8 * 2**10  # bytes; its layout is always kept
MAX_LAYOUT_BYTES: Final = 8 * 2**20
"""Maximum bytes of all pages whose layouts are kept; a layout takes 2 to 6 times the memory of its page."""
QUICK_PAGE, QUICK_LINES = 64 * 2**10, 2**10
"""Bytes and lines below which a first reading takes a few milliseconds; vLLM's page has 55 kB, 640 lines."""
QUICK_KNOWN_LINES: Final = 2**13  # the same for lines of a page of a known layout
COMPARED_EVERY: Final = 10  # readings until lines that are not wanted are compared again, not only counted

_SCALES: Final = [10**9 if counter.name.endswith("NANOSECONDS") else 1 for counter in Counter]
_Column = tuple[Quantity, float]  # a quantity, and its draft position or its bucket's upper bound, else 0
_NO_DIFFERENCES: Final = frozenset[Counter]()
_ADDED: Final = frozenset({Gauge.RUNNING_REQUESTS, Gauge.WAITING_REQUESTS})
_GAUGE_COLUMNS: Final = {gauge: column for column, gauge in enumerate(Gauge)}
_V0: Final = {EngineMark.V0, Gauge.REPORTED_ACCEPTANCE_RATIO}
_NOT_V0: Final = {Counter.DRAFTS, EngineMark.POSITION_ACCEPTED}


class EngineName(NamedTuple):
    """Identity of an engine within its server."""

    model_name: str  # empty if unknown
    engine: str  # number of the data-parallel engine, `0` if unknown; of replicas and stages `0@NAME`

    @property
    def replica(self) -> str:
        """Name of the replica or stage; empty of a page with one."""
        return self.engine.partition("@")[2]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Histogram as on the page: cumulative counts under ascending upper bounds, +Inf last."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(slots=True)  # frozen, it takes three times as long to create
class Sample:
    """Counters and gauges of one engine on one page. A value that the page lacks is None."""

    counters: tuple[int | None, ...]  # exact integers, indexed by `Counter`; times in nanoseconds
    positions: tuple[int, ...]  # accepted tokens by draft position; 0 for a position that the page lacks
    gauges: tuple[float | None, ...]  # in the order of `Gauge`
    created: float | None  # Unix time of the counters' start, else of the process' start
    latencies: Mapping[Latency, Buckets] | None = None  # histograms; None on a page read without them
    answer_lengths: Buckets | None = None
    """Histogram of the generation tokens of finished requests, read together with ``latencies``."""
    drafted: tuple[int, ...] = ()  # draft tokens by position; empty if they are not counted by position
    kind: EngineKind = engines.ENGINES[0]
    differences: frozenset[Counter] = frozenset()  # of other counters: a torn page makes them fall
    counts_verified: bool = False  # True if T counts verified draft tokens, which the engine may choose

    def __getitem__(self, counter: Counter) -> int | None:
        return self.counters[counter]

    def gauge(self, gauge: Gauge) -> float | None:
        """Return a gauge's value, or None if the page lacks it."""
        return self.gauges[_GAUGE_COLUMNS[gauge]]


class KvCache(NamedTuple):
    """KV cache of an engine, as vLLM's ``cache_config_info`` labels it."""

    tokens: int  # tokens that fit into it: blocks times their size
    dtype: str  # `auto`, that of the model, or `fp8`, …

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> KvCache | None:
        """Return the cache by its labels; None if they have no usable size."""
        whole, blocks, size = (
            int(text) if _WHOLE.fullmatch(text) else None
            for text in map(labels.get, ("kv_cache_size_tokens", "num_gpu_blocks", "block_size"), ("",) * 3)
        )
        tokens = whole if whole or blocks is None or size is None else blocks * size
        dtype = labels.get("cache_dtype", "")
        if not tokens:
            return None
        return cls(tokens, dtype if dtype.isprintable() and len(dtype) <= MAX_TEXT else "")


class PageSeries(NamedTuple):
    """Series of the kind of engine that a page is read as, and its process' start."""

    names: frozenset[bytes] = frozenset()  # sample names; with those of histograms, if they were read
    series: frozenset[ParsedSeries] = frozenset()  # without histograms


class PageReading(NamedTuple):
    """Samples of all engines on a page."""

    engine_kind: str  # name of a kind in `engines.ENGINES`; empty if the page has no known engine
    front_end: str
    """``python``, ``rust``, ``ray`` or ``v0`` (vLLM V0: no counters are read); empty for other engines."""
    samples: Mapping[EngineName, Sample]
    shown: PageSeries = PageSeries()
    settings: Mapping[str, str] | None = None  # labels with method and K; None without such a series
    kv_cache: KvCache | None = None  # of the first engine; None if the page does not show it


class EnginePlaces:
    """Indices of one engine's values among those of its page."""

    def __init__(self, places: Mapping[_Column, list[int]], kind: EngineKind) -> None:
        """Sort the indices of each column. Several series of one (replicas) add up."""
        self.kind, verified = kind, places.get((EngineMark.VERIFIED, 0))
        self.counters = [places.get((counter, 0), ()) for counter in Counter]
        self.counts_verified = verified is not None
        if verified is not None:
            self.counters[Counter.DRAFT_TOKENS] = verified
        self.gauges = [places.get((gauge, 0), ()) for gauge in Gauge]
        self.created = places.get((EngineMark.CREATED, 0), ())
        self.positions = _by_position(places, EngineMark.POSITION_ACCEPTED)
        self._counted = [*self.counters, *self.positions]
        self._single = [row[0] for row in self._counted if len(row) == 1]
        self.drafted = _by_position(places, EngineMark.POSITION_DRAFTED)
        self.beyond = [places.get((EngineMark.POSITION_ACCEPTED, MAX_POSITIONS), ())]
        buckets: defaultdict[Quantity, dict[float, list[int]]] = defaultdict(dict)
        for (quantity, bound), found in sorted(places.items(), key=lambda item: item[0][1]):
            if quantity in engines.HISTOGRAMS:
                buckets[quantity][bound] = found
        self.histograms = {name: (tuple(row), [*row.values()]) for name, row in buckets.items()}
        """Upper bounds of each histogram's buckets, which all samples share, and their indices."""

    def sample(self, values: Sequence[float], start: float | None, *, with_latencies: bool) -> Sample:
        """Return the sample; ``start`` is that of the process, for an engine without creation times."""
        created = max([values[place] for place in self.created], default=start)
        histograms = dict(self._histograms(values)) if with_latencies else {}
        latencies = {each: buckets for each, buckets in histograms.items() if isinstance(each, Latency)}
        counts, gauges = self._counts(values), tuple(_gauges(values, self.gauges))
        counters, positions = counts[: len(_SCALES)], tuple([each or 0 for each in counts[len(_SCALES) :]])
        drafted = tuple([count or 0 for count in _counts(values, self.drafted)]) if self.drafted else ()
        if any(drafted) and not drafted[0]:
            positions, drafted = (), ()  # each draft has the first position: the page lacks it, and so D
        differences = _NO_DIFFERENCES
        if self.kind.counts_at_end or counters[Counter.PREFIX_CACHE_QUERIES] is None:
            *others, steps, verified, cap = gauges
            gauges = (*others, steps_of(steps, verified), verified, cap)
            width = verified_width(gauges[-3], cap)
            accepted = sum(positions) + (_counts(values, self.beyond)[0] or 0)
            differences = derive(self.kind.name, counters, accepted, drafted, width)
        return Sample(
            counters=tuple(counters),
            positions=positions,
            gauges=gauges,
            created=created if created is not None and isfinite(created) else None,
            latencies=latencies if with_latencies else None,
            answer_lengths=histograms.get(EngineMark.ANSWER_LENGTHS),
            drafted=drafted,
            kind=self.kind,
            differences=differences,
            counts_verified=self.counts_verified,
        )

    def _counts(self, values: Sequence[float]) -> list[int | None]:
        """Return all counters, then all positions; half the time if each is one series with a usual value."""
        shown, scales = [values[place] for place in self._single], chain(_SCALES, repeat(1))
        if len(shown) == len(self._counted) and min(shown) >= 0 and sum(shown) < MAX_COUNT:
            return list(map(round, map(mul, shown, scales)))
        return _counts(values, self._counted, scales)

    def _histograms(self, values: Sequence[float]) -> Iterator[tuple[Quantity, Buckets]]:
        """Yield each histogram, unless the page lacks its +Inf, the number of observations."""
        for histogram, (bounds, places) in self.histograms.items():
            if bounds[-1] == inf:
                yield histogram, Buckets(bounds, tuple([count or 0 for count in _counts(values, places)]))


def _by_position(places: Mapping[_Column, list[int]], mark: EngineMark) -> list[Sequence[int]]:
    found = {
        int(number): own
        for (each, number), own in places.items()
        if each is mark and number < MAX_POSITIONS  # D, T and A are known without those beyond
    }
    return [found.get(place, ()) for place in range(max(found, default=-1) + 1)]


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
            if not 0 <= value < MAX_COUNT:  # also NaN
                raise PageError(f"a counter has the value {value}, which no counter can have")
            total += round(value * scale)
        if total >= MAX_COUNT * scale:
            raise PageError(f"a counter's series add up to {total}, which no counter can have")
        totals.append(total if places else None)
    return totals


def _gauges(values: Sequence[float], series: Iterable[Sequence[int]]) -> Iterator[float | None]:
    """Add up each gauge's series, or average shares and lengths. NaN and implausible values are absent."""
    for (gauge, limit), places in zip(MAX_GAUGES.items(), series, strict=True):
        if not places:
            yield None
            continue
        plausible = [values[place] for place in places if 0 <= values[place] <= limit]
        value = sum(plausible) / (1 if gauge in _ADDED else len(plausible)) if plausible else inf
        yield value if value <= limit else None


class PageMap:
    """Layout of a page, and the engine and quantity of each of its values."""

    def __init__(self, layout: Layout, size: int = 0) -> None:
        """Map the layout of a page of ``size`` bytes.

        Raises:
            PageError: The engines exceed the limits, or a label has no readable number.
        """
        self.size, self.starts, self._places = size, layout.starts, tuple(layout.places.values())
        self._wanted = [line for line, _ in self._places]
        series = list(layout.places)
        meanings = [engines.MEANINGS[each.name] for each in series]
        kind, prefix = next(((each.kind, each.prefix) for each in meanings if each.kind), (None, ""))
        own = [
            (index, meaning, dict(series[index].labels))
            for index, meaning in enumerate(meanings)
            if meaning.kind and meaning[:2] == (kind, prefix)
        ]
        # A router copies a few series from each of its servers.
        if all(engines.SERVER_LABEL in each and engines.MODEL_LABEL not in each for *_, each in own):
            kind, own = None, []
        starts = [i for i, each in enumerate(meanings) if each.quantity is EngineMark.PROCESS_START]
        self._starts = starts if len(starts) == 1 else []
        shown = [series[index] for index in (*(index for index, *_ in own), *self._starts)]
        names = frozenset(each.name for each in shown)
        self._shown = PageSeries(names, frozenset(each for each in shown if each.name in engines.PLAIN_NAMES))
        labels_of = {meaning.quantity: labels for _, meaning, labels in reversed(own)}  # of the first series
        self._settings = labels_of.get(EngineMark.SPECULATION)
        self._kv_cache = KvCache.of(labels_of.get(EngineMark.KV_CACHE, {}))
        self._kind = kind.name if kind else ""
        self._front_end = _front_end(kind, prefix, labels_of.keys(), is_open_metrics=layout.is_open_metrics)
        # V0's counters of speculation add up sums of sums (vLLM issue 15415).
        dropped = engines.SPECULATION.keys() if self._front_end == "v0" else ()
        # The series of the KV cache does not name the model.
        own = [each for each in own if each[1].quantity is not EngineMark.KV_CACHE]
        self._engines = {
            name: EnginePlaces(
                {key: found for key, found in places.items() if key[0] not in dropped},
                kind or engines.ENGINES[0],
            )
            for name, places in _places(own).items()
        }
        _check_sizes(self._engines)

    @classmethod
    def of(cls, layout: Layout, size: int) -> PageMap:
        """Map a layout, or return the map of an equal one that another target's reader uses."""
        # The starts determine all series; their number tells whether those of histograms are among them.
        key = layout.starts, len(layout.places)
        return _shared.get(key) or _shared.setdefault(key, cls(layout, size))

    def values(self, page: bytes, *, is_compared: bool = True) -> list[float] | None:
        """Return the values of another page, or None if it needs a first reading.

        Unless ``is_compared``, lines that are not wanted may differ.
        """
        lines = lines_of(page, self.starts, () if is_compared else self._wanted)
        try:
            return None if lines is None else values_at(lines, self._places)
        except PageError:
            return None

    def reading(self, values: Sequence[float], *, with_latencies: bool) -> PageReading:
        """Return the samples of a page with these values.

        Raises:
            PageError: A counter has a value that no counter can have.
        """
        start = next((values[index] for index in self._starts), None)
        samples = {
            name: engine.sample(values, start, with_latencies=with_latencies)
            for name, engine in self._engines.items()
        }
        return PageReading(self._kind, self._front_end, samples, self._shown, self._settings, self._kv_cache)


_shared: Final[WeakValueDictionary[tuple[tuple[bytes, ...], int], PageMap]] = WeakValueDictionary()
"""Maps that readers use now. Replicas have the same layout, of 50 kB and more, so they share it.

Large pages are read in threads, so nothing iterates over it.
"""


def _front_end(
    kind: EngineKind | None, prefix: str, quantities: KeysView[Quantity], *, is_open_metrics: bool
) -> str:
    # Recording rules may have a name of V0. It has a gauge beside it, and neither drafts nor positions.
    if quantities >= _V0 and quantities.isdisjoint(_NOT_V0):
        return "v0"
    if kind is None or kind.name != "vllm":
        return ""
    if prefix.startswith("ray"):
        return "ray"
    # The Rust front end always writes OpenMetrics, without creation times.
    return "rust" if is_open_metrics and EngineMark.CREATED not in quantities else "python"


def _places(
    own: Sequence[tuple[int, Meaning, dict[str, str]]],
) -> Mapping[EngineName, Mapping[_Column, list[int]]]:
    """Group the indices of values by engine and column; each has a meaning and labels.

    Older names of a quantity are ignored beside a newer one. Of the ranks of parallel workers, each of which
    SGLang can publish, the lowest counts. If drafts are counted without the number of their engine, as SGLang
    does, all engines are one, and their gauges add up.
    """
    names = [engine_name(labels) for *_, labels in own]
    drafts = [labels for _, meaning, labels in own if meaning.quantity is Counter.DRAFTS]
    is_one = any(not any(map(labels.get, engines.ENGINE_LABELS)) for labels in drafts)
    ranks = [
        [(len(text), text) for text in map(labels.get, engines.RANK_LABELS) if text is not None]
        for *_, labels in own
    ]
    newest: dict[Quantity, int] = {}
    lowest: dict[EngineName, list[tuple[int, str]]] = {}
    for (_, meaning, _), name, rank in zip(own, names, ranks, strict=True):
        newest[meaning.quantity] = min(meaning.age, newest.get(meaning.quantity, meaning.age))
        if rank:
            lowest[name] = min(rank, lowest.get(name, rank))
    places: defaultdict[EngineName, defaultdict[_Column, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (index, meaning, labels), name, rank in zip(own, names, ranks, strict=True):
        if labels.get("priority") and isinstance(meaning.quantity, Gauge):
            continue  # beside SGLang's gauges of all priorities
        if meaning.age == newest[meaning.quantity] and (not rank or rank == lowest[name]):
            whole = name._replace(engine="@".join(["0", *name.engine.split("@", 1)[1:]])) if is_one else name
            places[whole][meaning.quantity, _number(meaning.quantity, labels)].append(index)
    return places


def _number(quantity: Quantity, labels: Mapping[str, str]) -> float:
    if quantity is EngineMark.POSITION_ACCEPTED or quantity is EngineMark.POSITION_DRAFTED:
        return _position(next(filter(None, map(labels.get, engines.POSITION_LABELS)), ""))
    return _bound(labels.get("le", "")) if quantity in engines.HISTOGRAMS else 0


def engine_name(labels: Mapping[str, str]) -> EngineName:
    """Return the engine of a series, `0` if it names none; raise PageError if the name is too long."""
    number = next(filter(None, map(labels.get, engines.ENGINE_LABELS)), "0")
    replica = "/".join(
        labels[label]
        for label in engines.REPLICA_LABELS
        if labels.get(label) and (label != "WorkerId" or "ReplicaId" not in labels)
    )
    engine = f"{number}@{replica}" if replica else number
    name = EngineName(labels.get(engines.MODEL_LABEL, ""), engine)
    if max(map(len, name)) > MAX_LABEL_VALUE:
        raise PageError(f"an engine's name has more than {MAX_LABEL_VALUE} characters")
    return name


def _check_sizes(places: Mapping[EngineName, EnginePlaces]) -> None:
    """Reject a page whose engines would exceed the limits of windows, memory or the exported page."""
    characters = sum(len(text) for name in places for text in name)
    buckets = [len(bounds) for engine in places.values() for bounds, _ in engine.histograms.values()]
    positions = sum(len(engine.positions) + len(engine.drafted) for engine in places.values())
    for count, limit, text in (
        (len(places), MAX_ENGINES, "the page shows {} engines; at most {} are watched"),
        (characters, MAX_NAMES_TOTAL, "the engines' names have {} characters together; at most {} are read"),
        (max(buckets, default=0), MAX_BUCKETS, "a histogram has {} buckets; at most {} are read"),
        (positions, MAX_POSITIONS_TOTAL, "the page shows {} draft positions; at most {} are watched"),
    ):
        if count > limit:
            raise PageError(text.format(count, limit))


def _bound(text: str) -> float:
    try:
        bound = float(text) if len(text) <= MAX_TEXT else nan
    except ValueError:
        bound = nan
    if not (0 <= bound <= MAX_SECONDS or bound == inf):  # also NaN
        raise PageError(
            "a histogram bucket has no readable upper bound in its label le: "
            f"a number from 0 to {MAX_SECONDS:.0e} (seconds) or +Inf"
        )
    return bound


def _position(text: str) -> int:
    """Return a draft position; all beyond those that are watched are one."""
    if not _WHOLE.fullmatch(text):
        raise PageError("a count of draft tokens has no number in its label position or token_position")
    return min(int(text), MAX_POSITIONS)


class SampleReader:
    """Reader of one target's pages. It keeps the last layouts, so that the next page costs less."""

    def __init__(self, layout_bytes: int = MAX_LAYOUT_BYTES) -> None:
        """Keep layouts of larger pages while those of all readers are of ``layout_bytes`` bytes of pages."""
        self._layout_bytes, self._readings = layout_bytes, 0
        self._maps: dict[bool, PageMap] = {}  # the last layout with histograms (True) and without (False)

    def read_quickly(self, page: bytes, *, with_latencies: bool) -> PageReading | None:
        """Read a page that takes at most a few milliseconds; return None for any other, to read in a thread.

        Raises:
            PageError: The page is unusable.
        """
        known = self._maps.get(with_latencies)
        self._readings += 1
        if known and len(known.starts) < QUICK_KNOWN_LINES:
            values = known.values(page, is_compared=self._readings % COMPARED_EVERY == 0)
            if values is not None:
                return known.reading(values, with_latencies=with_latencies)
        is_quick = len(page) < QUICK_PAGE and page.count(b"\n") < QUICK_LINES
        return self.read(page, with_latencies=with_latencies) if is_quick else None

    def read(self, page: bytes, *, with_latencies: bool) -> PageReading:
        """Read a page; the histograms' buckets, which cost most, only on request.

        Raises:
            PageError: The page is unusable.
        """
        known = self._maps.get(with_latencies)
        values = known.values(page) if known else None
        if known is None or values is None:
            known, values = self._read_new(page, with_latencies=with_latencies)
        return known.reading(values, with_latencies=with_latencies)

    def _read_new(self, page: bytes, *, with_latencies: bool) -> tuple[PageMap, list[float]]:
        # Released before the new layout exists: two of the largest would take twice the memory.
        self._maps.pop(with_latencies, None)
        layout = read_layout(page, engines.MEANINGS if with_latencies else engines.PLAIN_NAMES)
        values = values_at(page.split(b"\n"), layout.places.values())
        other = self._maps.get(not with_latencies)
        if other and other.starts == layout.starts:
            # A whole page is read with and without histograms; the starts of its lines are large.
            layout = layout._replace(starts=other.starts)
        known = PageMap.of(layout, len(page))
        sizes = (kept.size for reference in _shared.valuerefs() if (kept := reference()))
        if len(page) <= SMALL_PAGE or sum(sizes) <= self._layout_bytes:
            self._maps[with_latencies] = known
        return known, values
