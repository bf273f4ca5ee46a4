"""Series in, one sample for each engine out.

The plan of how a page's values become samples depends on the page's layout alone, so it is made
once and used for as long as the layout holds: from one second to the next, that is always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from exporter.scrape.engines import BUCKET_NAMES, MEANINGS, Counter, EngineKind, Gauge, Latency, Mark, Meaning
from exporter.scrape.errors import PageError
from exporter.scrape.page import Layout, Series, is_number, read_layout, read_values
from exporter.scrape.sample import Buckets, EngineName, Reading, Sample

MOST_ENGINES = 256
MOST_POSITIONS = 128
MOST_COUNT = 2**53
"""From here on a float no longer counts by ones, so no server's counter can be right."""

_NANOSECONDS = 10**9
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""SGLang repeats an engine's series for every rank of its parallel workers; the first speaks for all."""
_SPECULATION = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})


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
    process_start: int | None


class Reader:
    """Reads the pages of one target; keeps the layout of the last one, so that the next costs less."""

    def __init__(self) -> None:
        self._known: dict[bool, tuple[Layout, _Plan]] = {}
        self.series: frozenset[Series] = frozenset()
        """The wanted series of the newest page, histograms apart: what a filtered page must have."""
        self.names: frozenset[bytes] = frozenset()
        """The sample names of the newest page that was read with its histograms."""

    def read(self, page: bytes, *, with_latencies: bool) -> Reading:
        """Read a page; with the histograms' buckets, which cost most, only when asked.

        Raises:
            PageError: nothing of the page can be used.
        """
        known = self._known.get(with_latencies)
        values = read_values(known[0], page) if known else None
        if known is None or values is None:
            layout, plan, values = self._first_reading(page, with_latencies=with_latencies)
        else:
            layout, plan = known
        if with_latencies:
            self.names = frozenset(one.name for one in layout.series)
        self.series = frozenset(one for one in layout.series if one.name not in BUCKET_NAMES)
        start = values[plan.process_start] if plan.process_start is not None else None
        samples = {
            name: _sample(engine, values, start, with_latencies=with_latencies)
            for name, engine in plan.engines.items()
        }
        return Reading(plan.kind, plan.front_end, samples)

    def _first_reading(self, page: bytes, *, with_latencies: bool) -> tuple[Layout, _Plan, list[float]]:
        layout = read_layout(page, _NAMES[with_latencies])
        plan = _plan(layout)
        values = read_values(layout, page)
        if values is None:  # pragma: no cover - a page is laid out as itself
            raise PageError("the page changed while it was read")
        if layout.repeatable:
            self._known[with_latencies] = (layout, plan)
        else:
            self._known.pop(with_latencies, None)
        return layout, plan, values


_NAMES = {True: frozenset(MEANINGS), False: frozenset(MEANINGS) - BUCKET_NAMES}


def _plan(layout: Layout) -> _Plan:
    meanings = [MEANINGS[series.name] for series in layout.series]
    kind, prefix = _engine_kind(meanings)
    newest: dict[object, int] = {}
    for meaning in meanings:
        newest[meaning.quantity] = min(meaning.rank, newest.get(meaning.quantity, meaning.rank))
    engines: defaultdict[EngineName, _EnginePlan] = defaultdict(_EnginePlan)
    start = None
    for place, (series, meaning) in enumerate(zip(layout.series, meanings, strict=True)):
        if meaning.quantity is Mark.PROCESS_START:
            start = place
        elif (meaning.kind, meaning.prefix) == (kind, prefix) and meaning.rank == newest[meaning.quantity]:
            _place(engines, series, meaning, place)
    if len(engines) > MOST_ENGINES:
        raise PageError(f"the page shows {len(engines)} engines; at most {MOST_ENGINES} are watched")
    legacy = Mark.V0 in newest
    created = Mark.CREATED in newest
    return _Plan(
        kind.name if kind else "",
        "v0" if legacy else _front_end(kind, prefix, open_metrics=layout.open_metrics, created=created),
        {name: _without_counters(plan) if legacy else plan for name, plan in engines.items()},
        start,
    )


def _engine_kind(meanings: Iterable[Meaning]) -> tuple[EngineKind | None, str]:
    """Return the engine and prefix of the page's first engine series: a page is read as one engine's."""
    return next(((one.kind, one.prefix) for one in meanings if one.kind), (None, ""))


def _front_end(kind: EngineKind | None, prefix: str, *, open_metrics: bool, created: bool) -> str:
    if kind is None or kind.name != "vllm":
        return ""
    if prefix.startswith("ray"):
        return "ray"
    # The Rust front end writes OpenMetrics whatever is asked for, and no creation times.
    return "rust" if open_metrics and not created else "python"


def _without_counters(plan: _EnginePlan) -> _EnginePlan:
    """Leave out V0's counters of speculation: they add up sums of sums (vLLM issue 15415)."""
    counters = [[] if counter in _SPECULATION else plan.counters[counter] for counter in Counter]
    return _EnginePlan(counters, plan.gauges, plan.created, {}, plan.buckets)


def _place(
    engines: defaultdict[EngineName, _EnginePlan], series: Series, meaning: Meaning, place: int
) -> None:
    """Note where one quantity of one engine stands. Several series of one engine (replicas) add up."""
    labels = dict(series.labels)
    if any(labels.get(rank, "0") != "0" for rank in _RANKS):
        return
    plan = engines[EngineName(labels.get("model_name", ""), labels.get("engine", labels.get("dp_rank", "")))]
    match meaning.quantity:
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
        return float(text or "")
    except ValueError:
        raise PageError("a histogram bucket has no readable upper bound in its label le") from None


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
        created=created if created is not None and is_number(created) else None,
        latencies=_latencies(plan, values) if with_latencies else None,
    )


_SCALE = {int(Counter.DECODE_NANOSECONDS): _NANOSECONDS}


def _count(values: Sequence[float], places: Sequence[int], scale: int) -> int | None:
    """Add up a counter's series as exact integers; None if the page has none of them."""
    if not places:
        return None
    total = 0
    for place in places:
        value = values[place]
        # Written so that NaN fails too.
        if not 0 <= value < MOST_COUNT / scale:
            raise PageError(f"a counter has the value {value}, which no counter can have")
        total += round(value * scale)
    if total >= MOST_COUNT:
        raise PageError(f"a counter's series add up to {total}, which no counter can have")
    return total


def _present(values: Sequence[float], places: Sequence[int]) -> list[float]:
    return [values[place] for place in places if is_number(values[place])]


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
