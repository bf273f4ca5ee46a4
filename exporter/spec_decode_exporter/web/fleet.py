"""Fleet of the page by its address: engines with a row, counts by verdict and state, and events."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, Final, Self
from urllib.parse import urlencode

from multidict import MultiMapping

from spec_decode_exporter.analysis.missing_evidence import WAYS, CostMeasurement
from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.events import EVENTS, event_text
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, id_of
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.words import STATES, VERDICTS, Standing

MAX_ROWS: Final = 100
"""Maximum number of engines, and of targets, on the page; the filter finds other engines."""
SLICE: Final = 8  # engines or targets after which other tasks run: less than a millisecond of work
MAX_ALIKE, MAX_ASKED = 3, 16
"""Maximum ways to find out of one kind, which differ by engine, and engines whose ways are collected."""
MAX_EVENTS: Final = 12  # maximum rows of a list of events
MAX_OPEN: Final = 8  # maximum number of open engines: each is rendered each second
_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')


SORTS: Final[Mapping[str, Callable[[EngineView], Any]]] = {
    "engine": lambda engine: engine.name.casefold(),
    "speedup": lambda engine: engine.evaluated and engine.evaluated.estimated_speedup_ratio.value,
    "acceptance": lambda engine: engine.longest and engine.longest.draft_acceptance_ratio.value,
    "length": lambda engine: engine.longest and engine.longest.acceptance_length_tokens.value,
    "k": lambda engine: engine.configured_tokens,
    "step": lambda engine: engine.longest and engine.longest.effective_tokens_per_step,
    "time": lambda engine: engine.longest and engine.longest.time_per_output_token_seconds,
}
"""Columns to sort by."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Filter and open engines, in the order of opening, and the order of the rows."""

    text: str = ""
    opened: tuple[str, ...] = ()
    sort: str = ""
    """Column of ``SORTS``, after ``-`` with the largest first; empty: what needs attention first."""

    @classmethod
    def read(cls, parameters: MultiMapping[str]) -> Self:
        """Read the parameters of an address, within the limits."""
        ids = (engine[:MAX_TEXT] for engine in parameters.getall("engine", []))
        sort, text = parameters.get("sort", ""), parameters.get("q", "")[:MAX_TEXT].strip()
        opened = tuple(dict.fromkeys(ids))[-MAX_OPEN:]
        return cls(text, opened, sort if sort.removeprefix("-") in SORTS else "")

    def filtered(self, text: str) -> PageQuery:
        """Return a query with another filter."""
        return replace(self, text=text)

    def toggled(self, engine: str) -> PageQuery:
        """Return a query with the engine opened, or closed if it is open."""
        others = tuple(other for other in self.opened if other != engine)
        return replace(self, opened=others if engine in self.opened else (*others, engine))

    def sorted_by(self, column: str) -> PageQuery:
        """Return a query with another order: numbers from the largest, then from the smallest, then none."""
        turns = ["", column, f"-{column}"] if column == "engine" else ["", f"-{column}", column]
        after = turns[(turns.index(self.sort) + 1) % len(turns)] if self.sort in turns else turns[1]
        return replace(self, sort=after)

    def in_order(self, engines: Sequence[EngineView]) -> list[EngineView]:
        """Return engines in the order of the rows."""
        if not self.sort:
            return sorted(engines, key=lambda engine: engine.urgency if engine.is_alarming else inf)
        values = [(SORTS[self.sort.removeprefix("-")](engine), engine) for engine in engines]
        known = [pair for pair in values if pair[0] is not None]
        known.sort(key=itemgetter(0), reverse=self.sort.startswith("-"))
        return [engine for _, engine in [*known, *(pair for pair in values if pair[0] is None)]]

    @property
    def href(self) -> str:
        """Relative address: it works behind any prefix."""
        pairs = [("q", self.text)] if self.text else []
        pairs += [("sort", self.sort)] if self.sort else []
        pairs += [("engine", engine) for engine in self.opened]
        return f"./?{urlencode(pairs)}" if pairs else "./"

    def matches(self, terms: Iterable[tuple[str, str]]) -> bool:
        """Return whether every word of the filter matches the pairs of key and value; case is ignored.

        A word ``key=value`` matches a complete value of that key. Any other word matches a part of any value.
        Quotes enclose spaces: ``verdict="too early"``. An open quote extends to the end.
        """
        words = [match.replace('"', "") for match in _WORD.findall(self.text.casefold())]
        known = {(key.casefold(), value.casefold()) for key, value in terms} if words else set()
        return all(_matches(word, known) for word in words)


def _matches(word: str, terms: set[tuple[str, str]]) -> bool:
    key, separator, value = word.partition("=")
    if separator and any(key == each for each, _ in terms):
        return (key, value) in terms
    return any(word in text for _, text in terms)


def terms(engine: EngineView) -> Iterator[tuple[str, str]]:
    """Yield keys and values that a filter finds: labels, and the words of the page and the API."""
    yield from engine.labels.items()
    yield "engine", f"engine {engine.engine}"
    yield "method", engine.method
    yield "state", engine.state
    yield "state", STATES[engine.state].label
    yield "verdict", engine.verdict
    if engine.standing is engine.verdict:
        yield "verdict", VERDICTS[engine.verdict].label
    yield "action", engine.recommendation
    yield "action", engine.advice or ""
    yield from (("dropped", kind) for kind, dropped in engine.drops.dropped.items() if dropped)
    if engine.has_dropped:
        yield "dropped", "dropped now"


@dataclass(slots=True)
class ShownFleet:
    """Engines that match the query, and counts of all."""

    query: PageQuery
    standings: Counter[Standing] = field(default_factory=Counter)  # verdicts and states of all engines
    engines: list[EngineView] = field(default_factory=list)  # all engines that can be shown
    matching: int = 0
    shown: list[EngineView] = field(default_factory=list)  # engines with a row, in the order of the query
    omitted: list[Mapping[str, str]] = field(default_factory=list)
    """Labels of engines that cannot be shown because of an internal error; at most ``MAX_ROWS``."""
    unknown: set[str] = field(default_factory=set)  # requested ids without an engine
    by_target: bool = False  # True if rows start with the target: several serve one model

    @classmethod
    async def of(
        cls,
        engines: Iterable[tuple[Mapping[str, str], EngineSnapshot]],
        query: PageQuery,
        errors: Isolation,
    ) -> ShownFleet:
        """Select the rows; yield to the event loop after each ``SLICE`` of engines."""
        fleet, pace = cls(query, unknown=set(query.opened)), Pace(SLICE)
        for labels, snapshot in engines:
            fleet.unknown.discard(id_of(labels))
            if errors.attempt("page", labels, partial(fleet._add, labels, snapshot)) is None:
                fleet.omitted = [*fleet.omitted, labels][:MAX_ROWS]
            await pace.done()
        rows = query.in_order(fleet.shown)
        beyond = [engine for engine in rows[MAX_ROWS:] if engine.id in query.opened]
        fleet.shown = [*rows[:MAX_ROWS], *beyond]
        models = {engine.model_name for engine in fleet.engines}
        targets = {engine.target for engine in fleet.engines}
        fleet.by_target = len(models) == 1 < len(targets)
        return fleet

    def _add(self, labels: Mapping[str, str], snapshot: EngineSnapshot) -> bool:
        """Count an engine, and keep it if it matches; return whether it does."""
        engine = EngineView(labels=labels, snapshot=snapshot)
        # Facts that may fail are read first, so that a failing engine is not counted.
        standing, matches = engine.standing, self.query.matches(terms(engine))
        self.query.in_order([engine])
        self.standings[standing] += 1
        self.engines.append(engine)
        self.matching += matches
        self.shown += [engine] * matches
        return matches

    @property
    def opened(self) -> list[EngineView]:
        """Engines with a panel."""
        return [engine for engine in self.shown if engine.id in self.query.opened]


class Events:
    """Recorded events, the newest last, by their subject."""

    def __init__(self, events: Sequence[RecordedEvent]) -> None:
        """Index the events by engine and target: every row uses the index."""
        self.all = events
        self._of: defaultdict[tuple[str, str | None], list[RecordedEvent]] = defaultdict(list)
        for event in events:
            self._of[event.target, event.engine_id].append(event)

    def of(self, engine: EngineView) -> list[RecordedEvent]:
        """Return the events of an engine and of its target."""
        subjects = (engine.target, engine.id), (engine.target, None)
        return sorted(chain(*(self._of.get(each, ()) for each in subjects)), key=attrgetter("time"))

    def beside(self, engines: Iterable[EngineView]) -> list[RecordedEvent]:
        """Return the events that the panels of these engines do not show."""
        shown = {event.id for engine in engines for event in self.of(engine)}
        return [event for event in self.all if event.id not in shown]


def grouped(events: Iterable[RecordedEvent]) -> list[list[RecordedEvent]]:
    """Return equal events of the same minute together, the newest first; important ones are alone."""
    rows: dict[object, list[RecordedEvent]] = {}
    for event in events:
        group = (event.type, event_text(event.type, event.fields), event.time // 60)
        key = event.id if is_important(event) else group
        rows[key] = row = rows.pop(key, [])
        row.append(event)
    return list(reversed(rows.values()))


def selected(rows: Sequence[list[RecordedEvent]]) -> list[list[RecordedEvent]]:
    """Return at most ``MAX_EVENTS`` rows in their order: the newest important ones, then others."""
    places = sorted(range(len(rows)), key=lambda place: not is_important(rows[place][-1]))
    return [rows[place] for place in sorted(places[:MAX_EVENTS])]


def is_important(event: RecordedEvent) -> bool:
    """Return whether an event is an alarm, its end, or a reset."""
    is_neutral = EVENTS[event.type].tone == "neutral"
    return event.bad or not is_neutral or event.fields.get("before") == State.UNREACHABLE


def shared_ways(engines: Sequence[EngineView]) -> tuple[list[tuple[CostMeasurement, list[str]]], int]:
    """Return ways to find out, cheapest first, with targets of unclear engines; and the engines omitted."""
    found: dict[CostMeasurement, list[EngineView]] = defaultdict(list)
    for engine in engines[:MAX_ASKED]:
        for way in engine.ways_to_know:
            found[way].append(engine)
    kinds = groupby(sorted(found, key=lambda way: WAYS.index(way.name)), attrgetter("name"))
    shown = {way: found.pop(way) for _, ways in kinds for way in list(islice(ways, MAX_ALIKE))}
    left_out = {engine.id for several in found.values() for engine in several}
    targets = [(way, list(dict.fromkeys(each.target for each in several))) for way, several in shown.items()]
    return targets, len(left_out) + len(engines[MAX_ASKED:])
