"""Observation of a history: the samples of each server drive the monitors of its engines, slot by slot.

Monitors, windows and formulas are the live ones, by the clock of the samples. A slot is evaluated once, at
its end; the newest time with drafts is evaluated as an observation is. A history also knows the steps
without speculation that came later, so each server's baseline is read before its samples.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final

from spec_decode_exporter.analysis.knowledge import Assumptions, Drafting
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.costs.baseline import Baseline, BaselineSummary
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.history.baseline_reader import Activity, BaselineReader, FoundBaseline
from spec_decode_exporter.history.history_pages import DEFAULT_INTERVAL, TargetSamples, check_engines
from spec_decode_exporter.history.history_targets import (
    HistoryTarget,
    every_engine,
    nearest_names,
    nothing_found,
    targets_of,
    without_twins,
)
from spec_decode_exporter.history.query_api import HistoryError, QueryApi
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.scrape.sample import EngineName, Sample
from spec_decode_exporter.window.engine_windows import NANO, Window
from spec_decode_exporter.window.poll import Counters, Poll

SHORT_SLOT, LONG_SLOT = 900.0, 3600.0
SHORT_SLOTS_UP_TO: Final = 8 * 86400.0  # length of a history up to which slots are short
REPORTED_SECONDS: Final = 86_400.0
"""Longest time, the newest with drafts or the end of a recording, that is evaluated as an observation."""
BASELINE_SECONDS: Final = 30 * 86_400.0  # time before a history in which baselines are searched too
MAX_SLOTS: Final = 20_000
"""Maximum slots of an engine: twice those of 400 days. Each reset of a counter begins one."""
PAGE: Final = 3600  # seconds of a page of samples: some 10 MB of memory at one second between two scrapes

Progress = Callable[[float], None]  # called with the share of the work that is done, 0 to 1
Knows = Callable[[str], Assumptions]  # returns the knowledge of the engines of a model besides their counters


class SlotOutcome(StrEnum):
    """Benefit of speculation in one slot, the worst first."""

    HURT = "hurt"  # slower than without: the upper bound of the speed-up is below 1
    UNCLEAR = "unclear"  # the bounds include 1, or there are too few data for bounds
    UNCOUNTED = "not counted"  # it decoded more than a token a step, and its drafts are not in the history
    UNKNOWN = "unknown"  # the history does not tell whether it drafted
    PAID = "paid"  # faster than without speculation: the lower bound of the speed-up is at least 1
    PLAIN = "without drafts"  # the engine decoded without drafts
    IDLE = "idle"  # the engine decoded nothing

    @classmethod
    def of(cls, speedup: Estimate | None, even: float = 1.0) -> SlotOutcome:
        """Return the outcome of drafting by its speed-up; ``even`` is as fast as without."""
        if speedup is None or speedup.lower < even <= speedup.upper:
            return cls.UNCLEAR
        return cls.PAID if speedup.lower >= even else cls.HURT


@dataclass(frozen=True, slots=True)
class Slot:
    """An engine between two Unix times, in one process of its server; or the sum of several slots."""

    begin: float  # Unix time
    end: float
    seconds: float  # covered seconds
    outcome: SlotOutcome
    tokens: int  # K; 0 without drafts
    era: int  # number of the changes of K before
    process: int  # number of the restarts before
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    generated: int  # generation tokens
    decode_seconds: float  # decode time, summed over requests; 0 if unknown
    running_requests: float | None  # mean load, with drafts that while drafting
    speedup: Estimate | None  # speed-up of decoding with its bounds; None with too few data

    @property
    def length(self) -> float | None:
        """Tokens of a draft, the bonus token included."""
        return 1 + self.accepted_tokens / self.drafts if self.drafts else None

    @property
    def saved_decode_seconds(self) -> tuple[float, ...] | None:
        """Decode seconds that speculation saved, with their bounds; negative if it cost time."""
        return self.speedup and tuple((each - 1) * self.decode_seconds for each in self.speedup[:3])


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Time and series to read."""

    begin: float  # Unix time
    end: float
    match: str = ""  # label matchers, without braces

    @property
    def slot_seconds(self) -> float:
        """Length of a slot in seconds."""
        return SHORT_SLOT if self.end - self.begin <= SHORT_SLOTS_UP_TO else LONG_SLOT


@dataclass(slots=True)
class EngineHistory:
    """History of one engine: its samples drive its monitor, which is evaluated at the end of each slot."""

    target: HistoryTarget
    labels: Mapping[str, str]  # labels of its metrics, as a live exporter would show them
    interval: float  # usual seconds between two scrapes
    slot_seconds: float
    monitor: EngineMonitor
    found: FoundBaseline | None = None  # baseline that its monitor began with
    drafted: float = inf  # Unix time after which it drafted last; infinite if that is unknown
    scrapes: int = 0
    slots: list[Slot] = field(default_factory=list)  # in the order of time
    events: list[tuple[float, Event]] = field(default_factory=list)
    """Events with the Unix times of their scrapes, oldest first."""
    baseline: BaselineSummary | None = None
    baseline_of: str = ""  # name of the server that the baseline is of; empty for its own
    snapshot: EngineSnapshot | None = None
    """Observation of the newest time with drafts; of its end without drafts."""
    reported_seconds: float = 0.0  # length of that observation
    _since: float | None = None
    _process: int = 0

    def observe(self, sample: Sample, wall: float) -> None:
        """Add the sample of a later scrape at a Unix time; raise HistoryError if there are too many slots.

        A slot begins at a multiple of its length, after a gap, and with a restart.
        """
        history = self.monitor.history
        last = history.last_seen if self._since is not None else None
        is_gap = last is not None and history.is_gone(wall)
        is_next = last is None or last // self.slot_seconds != wall // self.slot_seconds
        is_reset = _is_reset(history.poll, sample)
        if is_next or is_gap or is_reset:
            self.close()
            self._since = wall if last is None or is_gap else last
            self._process += is_reset
            if len(self.slots) > MAX_SLOTS:
                raise HistoryError(f"its counters fell {self._process} times: they are of several servers")
        self.scrapes += 1
        events = self.monitor.observe(sample, wall, wall, self.interval, self.slot_seconds)
        self.events += [(wall, event) for event in events]
        baseline = self.monitor.learned.baseline
        if self.monitor.counters.begins_again and not is_reset and baseline.present is baseline.kept:
            baseline.kept = None  # the same process drafted before its counters of drafts were kept

    def close(self) -> None:
        """End the present slot, if it has begun: evaluate it."""
        history, since = self.monitor.history, self._since
        if since is None or history.last_seen <= since:
            return
        window = history.window(history.last_seen - since)
        if not window.polls:
            return
        self.slots.append(self._slot(since, window))
        if self.slots[-1].drafts and history.wall >= self.drafted:
            self._report()

    def finish(self) -> None:
        """End the history."""
        self.close()
        if self.slots and self.snapshot is None:
            self._report()
        learned = self.monitor.learned.baseline
        self.baseline = learned.summary(self.monitor.history.wall)
        if (found := self.found) and learned.kept is found.baseline.kept and found.server is not self.target:
            self.baseline_of = found.server.name

    def _report(self) -> None:
        """Observe the time up to now in which it drafted with the present K, or in which it did not draft."""
        newest = self.slots[-1]
        begin = newest.begin
        for slot in reversed(self.slots):
            worked = slot.outcome is not SlotOutcome.IDLE
            if slot.era != newest.era or (worked and bool(slot.drafts) != bool(newest.drafts)):
                break
            begin = slot.begin if worked else begin
        self.reported_seconds = max(1.0, min(newest.end - begin, REPORTED_SECONDS))
        self.snapshot = self.monitor.snapshot_over(self.reported_seconds, newest.end)

    def _slot(self, begin: float, window: Window) -> Slot:
        history, total = self.monitor.history, window.total
        if total.drafts and (total.decode_steps or total.generation_tokens):
            figures = self.monitor.evaluation_over(window.length).longest
            load, (speedup, outcome) = figures.drafting_requests, _of_drafts(figures)
        else:  # most of an evaluation is the cost of drafting
            load, speedup = window.mean.running_requests, None
            outcome = _without_drafts(total, self.monitor.counters.drafting)
        return Slot(
            begin=begin,
            end=history.wall,
            seconds=window.seconds,
            outcome=outcome,
            tokens=history.tokens if total.drafts else 0,
            era=history.window_resets,
            process=self._process,
            drafts=total.drafts or 0,
            draft_tokens=total.draft_tokens or 0,
            accepted_tokens=total.accepted_tokens or 0,
            generated=total.generation_tokens or 0,
            decode_seconds=(total.decode_nanoseconds or 0) / NANO,
            running_requests=load,
            speedup=speedup,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusHistory(HistoryQuery):
    """History of all engines in the time asked for."""

    source: str  # address of the server that it was read from
    engines: Sequence[EngineHistory]
    notes: Sequence[str] = ()  # remarks about the reading: duplicates, missing series, unreadable scrapes
    incomplete: str = ""  # reason why the report covers only a part; empty if it is complete


async def read_history(
    api: QueryApi,
    query: HistoryQuery,
    assumptions: Knows,
    *,
    progress: Progress = lambda _: None,
    stop: asyncio.Event | None = None,
) -> PrometheusHistory:
    """Return that of all engines, incomplete after ``stop`` or a failure; raise HistoryError if none."""
    targets, notes = await _targets(api, query)
    stop, engines, incomplete = stop or asyncio.Event(), list[EngineHistory](), ""
    lacking = sum(bool(target.missing) for target in targets)
    baselines = BaselineReader(api, query.match, query.begin - BASELINE_SECONDS, query.end)
    for number, target in enumerate(targets):
        samples, read = TargetSamples(api, target, PAGE), dict[EngineName, EngineHistory]()
        try:
            async for share in _pages(samples, query, assumptions, baselines, read):
                progress((number + share) / len(targets))
                if stop.is_set():
                    break
        except HistoryError as error:
            incomplete = f"{target.name}: {error}"
        if stop.is_set():
            incomplete = f"interrupted while reading {target.name}"
        for _, engine in sorted(read.items()):
            engine.finish()
            engines.append(engine)
        notes += samples.notes()
        if incomplete:
            incomplete += f"; {number} of {len(targets)} targets were read completely"
            break
    if incomplete and not any(engine.slots for engine in engines):
        raise HistoryError(incomplete)
    if lacking and not incomplete:
        incomplete = f"series of {lacking} of {len(targets)} servers are missing"
    asked = query.begin, query.end, query.match
    return PrometheusHistory(*asked, source=api.name, engines=engines, notes=notes, incomplete=incomplete)


async def _targets(api: QueryApi, query: HistoryQuery) -> tuple[list[HistoryTarget], list[str]]:
    """Return the targets, with remarks on twins and missing series; raise HistoryError if none is of use."""
    targets = targets_of(await api.series(every_engine(query.match), query.begin, query.end))
    if not targets:
        near = await nearest_names(api, query.begin, query.end)
        raise HistoryError(f"{nothing_found(api, query.match)}{near}")
    unique = await without_twins(api, targets, query.begin, query.end)
    twins, notes = len(targets) - len(unique), list[str]()
    if twins:
        notes.append(f"Counted once: {twins} targets have the counters of another one (HA pairs).")
    for target in (each for each in unique if each.missing):
        verb = "is" if len(target.missing) == 1 else "are"
        near = await nearest_names(api, query.begin, query.end, target.missing)
        notes.append(f"{target.name}: {', '.join(target.missing)} {verb} missing here.{near}")
    if not any(Counter.GENERATION_TOKENS in target.quantities for target in unique):
        raise HistoryError("; ".join(notes))
    return unique, notes


def _is_reset(before: Poll | None, sample: Sample) -> bool:
    """Return whether a sample is of another process than the poll before."""
    if before is None:
        return False
    is_new = None not in (before.created, sample.created) and before.created != sample.created
    pairs = zip(before.counters, sample.counters, strict=True)
    return is_new or any(new is not None and new < old for old, new in pairs)


def _of_drafts(figures: WindowEvaluation) -> tuple[Estimate | None, SlotOutcome]:
    """Return the speed-up, None without bounds or with too few data for a verdict, and the outcome."""
    found, even = figures.speedup_range, figures.known.policy.speedup.harmful
    if found is None or not found.is_bounded or figures.verdict is Verdict.INSUFFICIENT:
        return None, SlotOutcome.UNCLEAR
    if figures.request is not None and figures.request.is_slower:
        return found.estimate, SlotOutcome.HURT
    return found.estimate, SlotOutcome.of(found.estimate, even)


def _without_drafts(total: Counters[int | None], drafting: Drafting) -> SlotOutcome:
    if not (total.decode_steps or total.generation_tokens):
        return SlotOutcome.IDLE
    has_tokens = total.draft_tokens or total.accepted_tokens
    if drafting is Drafting.UNCOUNTED or (total.drafts is None and has_tokens):
        return SlotOutcome.UNCOUNTED
    return SlotOutcome.UNKNOWN if drafting is Drafting.UNKNOWN else SlotOutcome.PLAIN


async def _pages(
    samples: TargetSamples,
    query: HistoryQuery,
    assumptions: Knows,
    reader: BaselineReader,
    engines: dict[EngineName, EngineHistory],
) -> AsyncIterator[float]:
    """Add the samples of one target to its ``engines``; yield the share that is done after each page."""
    begin, end, target = query.begin, query.end, samples.target
    activity, baselines = Activity(), dict[str, FoundBaseline]()
    with suppress(HistoryError):  # the samples may be read nevertheless, or tell the reason
        activity = await reader.activity(target)
        baselines = await reader.read(target)
    front_end = "rust" if await target.has_rust_front_end(samples.api, begin, end) else ""

    def new_engine(name: EngineName, *, data_parallel: bool) -> EngineHistory:
        known = replace(
            assumptions(name.model_name),
            engine_kind=target.kind.name,
            front_end=front_end,
            data_parallel=data_parallel,
            settings_place="history",
        )
        found, slot = baselines.get(name.model_name), query.slot_seconds
        # What was found is the newest: times without speculation before it do not replace it.
        baseline = Baseline(found.baseline.kept, ended=True) if found else Baseline()
        monitor = EngineMonitor((REPORTED_SECONDS,), known, baseline)
        model_name, interval = name.model_name or target.name, samples.interval or DEFAULT_INTERVAL
        labels = {"target": target.name, "model_name": model_name, "engine": name.engine}
        drafted = activity.drafted.get(name, inf) - reader.step - slot
        return EngineHistory(target, labels, interval, slot, monitor, found, drafted)

    async for edge, scrapes in samples.pages(begin, end):
        for time, scrape in scrapes:
            for name, sample in scrape.items():
                if name not in engines:
                    check_engines(len(engines) + 1)
                    engines[name] = new_engine(name, data_parallel=len(scrape) > 1)
                engines[name].observe(sample, time)
        await yield_to_event_loop()
        yield (edge - begin) / (end - begin)
