"""Reader of a history: discovers targets, and reads their samples page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.history import selectors
from spec_decode_exporter.history.engine_slots import EngineSlots, PlainPeriods
from spec_decode_exporter.history.history_result import EngineHistoryResult, HistoryResult
from spec_decode_exporter.history.history_setting import best_setting
from spec_decode_exporter.history.history_targets import (
    MAX_TARGETS,
    HistoryTarget,
    nearest_names,
    targets_of,
    without_twins,
)
from spec_decode_exporter.history.page_rows import RowReader, Samples
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, SampledSeries
from spec_decode_exporter.history.sample_pages import REPORT_PAGES, sample_pages
from spec_decode_exporter.history.slot_evaluation import evaluated
from spec_decode_exporter.scrape.sample import EngineName

SHORT_SLOT: Final = 900.0
LONG_SLOT: Final = 3600.0
SHORT_SLOTS_UP_TO: Final = 8 * 86400.0
"""Length of a history up to which slots are short."""
DEFAULT_INTERVAL: Final = 60.0

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0 to 1."""


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


class HistoryReader:
    """Reads the history of all engines of one server of metrics."""

    def __init__(
        self,
        api: QueryApi,
        query: HistoryQuery,
        assumptions: Callable[[str], Assumptions],
        progress: Progress = lambda _: None,
        notes: Sequence[str] = (),
    ) -> None:
        """Prepare to ``read``.

        Args:
            api: The server.
            query: What to read.
            assumptions: Returns the knowledge of the engines of a model besides their counters.
            progress: Called with the share of the work that is done.
            notes: Remarks that the result has.
        """
        self._api = api
        self._query = query
        self._assumptions = assumptions
        self._progress = progress
        self._notes = list(notes)

    async def read(self, stop: asyncio.Event | None = None) -> HistoryResult:
        """Return the history; incomplete if ``stop`` is set, or if the server fails after the beginning.

        Raises:
            HistoryError: Nothing can be read.
        """
        targets = await self._targets()
        stop = stop or asyncio.Event()
        engines: list[EngineHistoryResult] = []
        incomplete = ""
        for number, target in enumerate(targets):
            reading = _TargetReading(self._api, self._query, target, self._assumptions)

            def progress(share: float, before: int = number) -> None:
                self._progress((before + share) / len(targets))

            try:
                await reading.read(progress, stop)
            except HistoryError as error:
                incomplete = f"{target.name}: {error}"
            if stop.is_set():
                incomplete = f"interrupted while reading {target.name}"
            engines += reading.results()
            self._notes += reading.notes()
            if incomplete:
                incomplete += f"; {number} of {len(targets)} targets were read completely"
                break
        if incomplete and not any(engine.slots for engine in engines):
            raise HistoryError(incomplete)
        query = self._query
        return HistoryResult(
            self._api.name,
            query.begin,
            query.end,
            query.slot_seconds,
            engines,
            tuple(self._notes),
            incomplete,
        )

    async def _targets(self) -> list[HistoryTarget]:
        query = self._query
        series = await self._api.series(selectors.every_engine(query.match), query.begin, query.end)
        targets = targets_of(series)
        if not targets:
            raise HistoryError(await self._nothing_found())
        if len(targets) > MAX_TARGETS:
            raise HistoryError(
                f"{len(targets)} targets match; a report has at most {MAX_TARGETS}: use --match"
            )
        unique, twins = await without_twins(targets, self._identifying)
        if twins:
            self._notes.append(f"Counted once: {twins} targets have the counters of another one (HA pairs).")
        return unique

    async def _identifying(self, target: HistoryTarget) -> list[SampledSeries]:
        """Return the newest samples by which the process of a target is recognised."""
        selector = selectors.identifying(target.prefix, target.kind, target.labels)
        return await self._api.samples(selector, self._query.end, int(min(900, self._span())))

    def _span(self) -> float:
        return self._query.end - self._query.begin

    async def _nothing_found(self) -> str:
        query = self._query
        where = f" with {query.match}" if query.match else ""
        message = f"{self._api.name} has no metrics of an engine that is known{where} in this time"
        try:
            near = nearest_names(await self._api.metric_names(query.begin, query.end))
        except HistoryError:
            near = []
        if any(map(selectors.is_known, near)):
            return f"{message}. It has {', '.join(near)}: check --match, --since and --until"
        return (
            f"{message}. The nearest names are {', '.join(near)}" if near else f"{message}; it has no metrics"
        )


class _TargetReading:
    """Reads one target from its first to its last sample."""

    def __init__(
        self,
        api: QueryApi,
        query: HistoryQuery,
        target: HistoryTarget,
        assumptions: Callable[[str], Assumptions],
    ) -> None:
        self._api = api
        self._query = query
        self._target = target
        self._assumptions = assumptions
        self._rows = RowReader()
        self._engines: dict[EngineName, EngineSlots] = {}
        self._periods: dict[str, PlainPeriods] = {}
        self._interval = 0.0
        self._is_rust = False

    async def read(self, progress: Callable[[float], None], stop: asyncio.Event) -> None:
        """Read all pages, until ``stop`` is set."""
        query = self._query
        self._is_rust = await has_rust_front_end(self._api, self._target, query.begin, query.end)
        selector = selectors.of_target(self._target.kind, self._target.prefix, self._target.labels)
        last = query.begin - 1.0
        fetch = partial(self._api.samples, selector)
        async for end, page in sample_pages(fetch, query.begin, query.end, REPORT_PAGES):
            rows = list(self._rows.read(page))
            self._interval = self._interval or usual_interval([time for time, _ in rows])
            for time, samples in rows:
                if time > last:
                    self._observe(time, samples)
                    last = time
            await yield_to_event_loop()
            progress((end - query.begin) / (query.end - query.begin))
            if stop.is_set():
                return

    def results(self) -> list[EngineHistoryResult]:
        """Return the evaluated history of each engine."""
        target = self._target
        found = []
        for name, engine in sorted(self._engines.items()):
            engine.close()
            periods, assumptions = self._periods[name.model_name], self._assumptions(name.model_name)
            slots = tuple(evaluated(engine.slots, periods, assumptions))
            data_parallel = len(self._engines) > 1
            found.append(
                EngineHistoryResult(
                    target.name,
                    target.labels,
                    name.model_name,
                    name.engine,
                    self._interval or DEFAULT_INTERVAL,
                    engine.scrapes,
                    slots,
                    tuple(engine.events),
                    tuple(each.period for each in periods.all()),
                    best_setting(engine.slots, slots, periods, assumptions, data_parallel=data_parallel),
                )
            )
        return found

    def notes(self) -> list[str]:
        """Return remarks about the reading."""
        if not self._rows.unreadable:
            return []
        return [f"{self._target.name}: {self._rows.unreadable} scrapes left out: {self._rows.reason}."]

    def _observe(self, time: float, samples: Samples) -> None:
        for name, sample in samples.items():
            engine = self._engines.get(name)
            if engine is None:
                periods = self._periods.setdefault(name.model_name, PlainPeriods())
                engine = self._engines[name] = EngineSlots(
                    self._assumptions(name.model_name),
                    periods,
                    self._query.slot_seconds,
                    self._interval or DEFAULT_INTERVAL,
                    always_counts_drafts=self._is_rust,
                )
            engine.observe(sample, time)


async def has_rust_front_end(api: QueryApi, target: HistoryTarget, begin: float, end: float) -> bool:
    """Return whether the server is vLLM's Rust front end, which has none of Python's own series.

    Raises:
        HistoryError: The history cannot be read.
    """
    if target.created or target.kind.name != "vllm" or target.prefix.startswith("ray"):
        return False
    return not await api.series(selectors.python_marks(target.labels), begin, end)


def usual_interval(times: Sequence[float]) -> float:
    """Return the usual seconds between two scrapes; 0 with fewer than three."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return median(gaps) if len(gaps) > 1 else 0.0
