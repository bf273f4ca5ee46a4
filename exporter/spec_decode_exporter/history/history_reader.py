"""Reader of a history: discovers targets, and reads their samples page by page."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.recommended_setting import setting_by_load
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.history.history_pages import (
    DEFAULT_INTERVAL,
    PageSize,
    TargetSamples,
    check_engines,
)
from spec_decode_exporter.history.history_result import (
    EngineHistoryResult,
    HistoryResult,
    HistorySetting,
    best_tokens,
)
from spec_decode_exporter.history.history_slots import EngineSlots, PlainPeriods, SlotResult
from spec_decode_exporter.history.history_targets import (
    HistoryTarget,
    every_engine,
    nearest_names,
    nothing_found,
    targets_of,
    without_twins,
)
from spec_decode_exporter.history.query_api import HistoryError, QueryApi
from spec_decode_exporter.monitor.state import group_of
from spec_decode_exporter.scrape.sample import EngineName
from spec_decode_exporter.window.history import Window

SHORT_SLOT, LONG_SLOT = 900.0, 3600.0
SHORT_SLOTS_UP_TO: Final = 8 * 86400.0
"""Length of a history up to which slots are short."""
MAX_TARGETS: Final = 256
"""Maximum targets of a report."""
PAGES: Final = PageSize(first=3600, largest=24 * 3600, samples=100_000)
"""Pages of 10 to 20 MB of memory."""

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0 to 1."""
Knows = Callable[[str], Assumptions]
"""Returns the knowledge of the engines of a model besides their counters."""


_Groups = defaultdict[tuple[str, str], list[PlainPeriods]]  # by group and model


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Time and series to read."""

    begin: float
    """Unix time."""
    end: float
    match: str = ""
    """Label matchers, without braces."""

    @property
    def slot_seconds(self) -> float:
        """Length of a slot in seconds."""
        return SHORT_SLOT if self.end - self.begin <= SHORT_SLOTS_UP_TO else LONG_SLOT


async def read_history(
    api: QueryApi,
    query: HistoryQuery,
    assumptions: Knows,
    *,
    progress: Progress = lambda _: None,
    notes: Sequence[str] = (),
    stop: asyncio.Event | None = None,
) -> HistoryResult:
    """Return that of all engines, incomplete after ``stop`` or a failure; raise HistoryError if none."""
    targets, twins = await _targets(api, query)
    stop = stop or asyncio.Event()
    readings, groups, incomplete = list[_TargetReading](), _Groups(list), ""
    if twins:
        notes = [*notes, f"Counted once: {twins} targets have the counters of another one (HA pairs)."]
    for number, target in enumerate(targets):
        reading = _TargetReading(api, query, target, assumptions, groups)
        readings.append(reading)
        try:
            async for share in reading.read():
                progress((number + share) / len(targets))
                if stop.is_set():
                    break
        except HistoryError as error:
            incomplete = f"{target.name}: {error}"
        if stop.is_set():
            incomplete = f"interrupted while reading {target.name}"
        notes = [*notes, *reading.samples.notes()]
        if incomplete:
            incomplete += f"; {number} of {len(targets)} targets were read completely"
            break
    engines = [result for reading in readings for result in reading.results()]
    if incomplete and not any(engine.slots for engine in engines):
        raise HistoryError(incomplete)
    length = query.slot_seconds
    return HistoryResult(api.name, query.begin, query.end, length, engines, tuple(notes), incomplete)


async def _targets(api: QueryApi, query: HistoryQuery) -> tuple[list[HistoryTarget], int]:
    """Return the targets, and the number of those that are left out as twins."""
    targets = targets_of(await api.series(every_engine(query.match), query.begin, query.end))
    if not targets:
        near = await nearest_names(api, query.begin, query.end)
        raise HistoryError(f"{nothing_found(api, query.match)}{near}")
    if len(targets) > MAX_TARGETS:
        raise HistoryError(f"{len(targets)} targets match; a report has at most {MAX_TARGETS}: use --match")
    unique = await without_twins(api, targets, query.begin, query.end)
    return unique, len(targets) - len(unique)


class _TargetReading:
    """Reads one target from its first to its last sample."""

    def __init__(
        self, api: QueryApi, query: HistoryQuery, target: HistoryTarget, assumptions: Knows, groups: _Groups
    ) -> None:
        self._query = query
        self._assumptions = assumptions
        self.samples = TargetSamples(api, target, PAGES)
        self._engines: dict[EngineName, EngineSlots] = {}
        self._periods: dict[str, PlainPeriods] = {}
        self._groups, self._group = groups, group_of(target.labels, target.name)
        self._is_rust = False

    async def read(self) -> AsyncIterator[float]:
        """Read all pages; yield the share that is done after each."""
        query, its = self._query, self.samples
        self._is_rust = await its.target.has_rust_front_end(its.api, query.begin, query.end)
        async for end, scrapes in its.pages(query.begin, query.end):
            for time, samples in scrapes:
                for name, sample in samples.items():
                    self._engine(name).observe(sample, time)
            await yield_to_event_loop()
            yield (end - query.begin) / (query.end - query.begin)

    def _engine(self, name: EngineName) -> EngineSlots:
        engine = self._engines.get(name)
        if engine is None:
            check_engines(len(self._engines) + 1)
            if name.model_name not in self._periods:
                self._periods[name.model_name] = PlainPeriods(self._groups[self._group, name.model_name])
            engine = self._engines[name] = EngineSlots(
                replace(self._assumptions(name.model_name), front_end="rust" if self._is_rust else ""),
                self._periods[name.model_name],
                self._query.slot_seconds,
                self.samples.interval or DEFAULT_INTERVAL,
            )
        return engine

    def results(self) -> Iterator[EngineHistoryResult]:
        """Yield the evaluated history of each engine."""
        target = self.samples.target
        for name, engine in sorted(self._engines.items()):
            engine.close()
            slots = tuple(engine.evaluated())
            yield EngineHistoryResult(
                target.name,
                target.labels,
                name.model_name,
                name.engine,
                self.samples.interval or DEFAULT_INTERVAL,
                engine.scrapes,
                slots,
                tuple(engine.events),
                tuple(each.period for each in engine.periods.known),
                best_setting(engine, slots, data_parallel=len(self._engines) > 1),
            )


def best_setting(
    engine: EngineSlots, results: Sequence[SlotResult], *, data_parallel: bool
) -> HistorySetting | None:
    """Return the setting of ``recommend`` that would have been best; None without drafts.

    Acceptance is of all slots with the last K, the cost by load that at the end of the last of them.
    ``results`` are the evaluated slots; with ``data_parallel`` the server has several engines.
    """
    drafted = [slot for slot in engine.slots if slot.tokens and slot.window.total.drafts]
    if not drafted:
        return None
    tokens = drafted[-1].tokens
    best = best_tokens(result for result in results if result.tokens == tokens)
    known = engine.knowledge_at(drafted[-1])
    known = replace(known, assumed=replace(known.assumed, data_parallel=data_parallel))
    window = Window.over_time([slot.window for slot in drafted if slot.tokens == tokens])
    loads = {point.running_requests for curve in known.cost.measured for point in curve.points}
    setting = setting_by_load(WindowEvaluation(window, known), max(tokens, best.best if best else 0))
    return HistorySetting(setting, known.speculation, tuple(sorted(loads)))
