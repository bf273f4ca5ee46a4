"""Fleet of the page: engines with a row, counts by verdict and state, and events by engine and target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Final

from spec_decode_exporter.analysis.missing_evidence import WAYS, CostMeasurement
from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.events import EVENTS, event_text
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, id_of
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.words import Standing
from spec_decode_exporter.web.query import PageQuery, terms

MAX_ROWS: Final = 200
"""Maximum number of engines, and of targets, on the page; the filter finds other engines."""
SLICE: Final = 8
"""Engines or targets after which other tasks run: less than a millisecond of work."""
MAX_ALIKE, MAX_ASKED = 3, 16
"""Maximum ways to find out of one kind, which differ by engine, and engines whose ways are collected."""
MAX_EVENTS: Final = 12
"""Maximum rows of a list of events."""


@dataclass(slots=True)
class ShownFleet:
    """Engines that match the query, and counts of all."""

    query: PageQuery
    standings: Counter[Standing] = field(default_factory=Counter)
    """Verdicts and states of all engines."""
    engines: list[EngineView] = field(default_factory=list)
    """All engines that can be shown."""
    matching: int = 0
    shown: list[EngineView] = field(default_factory=list)
    """Engines with a row, in the order of the query."""
    omitted: list[Mapping[str, str]] = field(default_factory=list)
    """Labels of engines that cannot be shown because of an internal error; at most ``MAX_ROWS``."""
    unknown: set[str] = field(default_factory=set)
    """Requested ids without an engine."""
    by_target: bool = False
    """True if rows start with the target: several serve one model."""

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
        self._places: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for place, event in enumerate(events):
            subject = ("target", event.target) if event.engine_id is None else ("engine", event.engine_id)
            self._places[subject].append(place)

    def of(self, engine: EngineView) -> list[RecordedEvent]:
        """Return the events of an engine and of its target."""
        subjects = ("engine", engine.id), ("target", engine.target)
        places = [place for subject in subjects for place in self._places.get(subject, ())]
        return [self.all[place] for place in sorted(places)]

    def beside(self, engines: Iterable[EngineView]) -> list[RecordedEvent]:
        """Return the events that the panels of these engines do not show."""
        shown = {event.id for engine in engines for event in self.of(engine)}
        return [event for event in self.all if event.id not in shown]


def grouped(events: Iterable[RecordedEvent]) -> list[list[RecordedEvent]]:
    """Return equal events of the same minute together, the newest first; important ones are alone."""
    rows: dict[object, list[RecordedEvent]] = {}
    for event in events:
        group = (event.type, event_sentence(event), event.time // 60)
        key = event.id if is_important(event) else group
        row = rows.pop(key, [])
        row.append(event)
        rows[key] = row
    return list(reversed(rows.values()))


def selected(rows: Sequence[list[RecordedEvent]]) -> list[list[RecordedEvent]]:
    """Return at most ``MAX_EVENTS`` rows in their order: the newest important ones, then others."""
    places = sorted(range(len(rows)), key=lambda place: not is_important(rows[place][-1]))
    return [rows[place] for place in sorted(places[:MAX_EVENTS])]


def is_important(event: RecordedEvent) -> bool:
    """Return whether an event is an alarm, its end, or a reset."""
    is_neutral = EVENTS[event.type].tone == "neutral"
    return event.bad or not is_neutral or event.fields.get("before") == State.UNREACHABLE


def event_sentence(event: RecordedEvent) -> str:
    """Return an event in words."""
    return event_text(event.type, event.fields)


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
