"""Monitor of one target: takes its pages, and holds the monitors of its engines."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil, floor, inf
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import resolve
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.event import Event, Fields
from spec_decode_exporter.core.isolation import Isolation, Item
from spec_decode_exporter.core.urls import Url, address, model_of
from spec_decode_exporter.costs.cost import CostRange
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.experiments.experiment import Member
from spec_decode_exporter.experiments.pace import ArmTypes
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, TargetStatus
from spec_decode_exporter.monitor.state import ModelKey, Remembered, group_of
from spec_decode_exporter.scrape.client import CONFIG_RESOLVER, LIST_RESOLVER, Client
from spec_decode_exporter.scrape.errors import Reason
from spec_decode_exporter.scrape.poll_record import Polled, PollRecord, Recorded
from spec_decode_exporter.scrape.poller import PollBudget, Poller, phase
from spec_decode_exporter.scrape.sample import MAX_ENGINES, EngineName, PageReading, Sample
from spec_decode_exporter.scrape.server_info import ServedSpeculation, labelled_speculation

T = TypeVar("T")
RequestTimes = Callable[[str, str, float, float], ArmTypes]
"""Return the times of requests by type: of a model and a target, between two moments (monotonic)."""
ExperimentMember = tuple[Member, EngineMonitor]  # an engine that may take part in experiments

EVICTED_AFTER: Final = 3600.0  # seconds until an engine that left the page is evicted, with its counters
PLACE_LABELS: Final = 256  # bytes of label values that take one place: each series of an engine repeats them
LAYOUT_BYTES: Final = 4 * 1024  # of pages whose layouts are kept, for each engine within the limit
SHORTEST_PACE, SCRAPE_PACE = 1.0, 15.0  # seconds between two evaluations of an engine, and two usual scrapes
USUAL_EVALUATIONS, MOST_EVALUATIONS = 10, 66  # of all engines, a second: up to 990 engines, and beyond
ENGINES_SLICE: Final = 4  # engines between two yields to the event loop: at most a few milliseconds each
WITHOUT_LIMIT: Final = 2_000  # engines without a limit in the configuration or of a container
MIN_ENGINES: Final = 16  # in the smallest container
_OWN_MEMORY, _ENGINE_MEMORY = 80 * 2**20, 256 * 2**10
"""Bytes of the process, and of a full engine, in a request of the page: `python -m benchmarks.cost job`."""
# The memory limit of the container: cgroups of version 2 and 1.
_MEMORY_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_settings: Final = attrgetter("poll", "windows", "cost", "reference", "policy", "limits")  # of a target


class Shared:
    """Everything that the targets share."""

    def __init__(self, clock: Clock, *, spread: bool = True, recorded: Recorded | None = None) -> None:
        """Begin without engines; ``recorded`` takes each raw poll, to record it.

        ``spread`` shifts rarer work by a phase of each engine, so that a fleet does not do it all at once.
        """
        self.clock, self.recorded, self.remembered = clock, recorded, Remembered()
        self.events = EventLog(f"{max(0, round(clock.wall() * 1000)):x}", clock.monotonic)
        """Its run is named after the start, in milliseconds of Unix time."""
        self.errors = Isolation(clock.monotonic)
        """Isolates internal errors of readers and of targets; those of engines are events."""
        self.engine_errors = Isolation(clock.monotonic, self._report)
        self.places_taken, self._places_in_memory = 0, engines_that_fit(container_memory())
        self.budget = PollBudget()
        self.phase: Callable[[str], float] = phase if spread else lambda _: 0.0
        """Returns the part of its interval by which rarer work is shifted, 0 to 1, by a key."""
        self.after_evaluation: list[Callable[[Mapping[str, str], EngineSnapshot, float], None]] = []
        """Called with labels, snapshot and pace of each engine that was evaluated."""

    def limit(self, config: Config) -> int:
        """Return the places of the engines of all targets: an engine takes one, or more with long labels."""
        return config.limits.engines or self._places_in_memory

    def take_places(self, number: int) -> None:
        """Add the places that a target takes; below 0, it gives them back."""
        self.places_taken += number

    def _report(self, part: str, item: Item, error: Exception) -> None:
        """Record an internal error as an event of the engine that it concerns."""
        self.events.record(Event("internal_error", {"part": part}, error=error), self.clock.wall(), item)

    @property
    def pace(self) -> float:
        """Seconds between two evaluations of an engine, by the engines of all targets."""
        usual = min(self.places_taken / USUAL_EVALUATIONS, SCRAPE_PACE)
        return max(SHORTEST_PACE, usual, self.places_taken / MOST_EVALUATIONS)

    def is_due(self, engine: EngineMonitor, polled: Polled) -> bool:
        """Return whether an engine is evaluated at this poll: in its pace, or at once."""
        pace, before = self.pace, engine.evaluated_at
        if engine.is_urgent or pace <= polled.interval or before == -inf:
            return True
        shift = engine.phase + polled.interval / 2 / pace  # no poll is close to the begin of an interval
        return floor(polled.moment / pace + shift) != floor(before / pace + shift)


class TargetMonitor:
    """Monitors each engine of a target; its ``poller`` polls it.

    It has no reference to its poller, so that a removed target is freed without a garbage collection.
    """

    def __init__(self, target: Target, config: Config, shared: Shared) -> None:
        """Prepare to poll."""
        self.engines: dict[EngineName, EngineMonitor] = {}
        self._shared = shared
        self._server = PageReading("", "", {})
        """Server data of the newest page, without its samples: they take megabytes on a large page."""
        self._ranks: Mapping[str, int] = {}  # engines by replica; empty of a page with one engine
        self._record = PollRecord()
        self._served: ServedSpeculation | None = None
        self._places = self._not_monitored = 0
        self._configure(target, config)

    def model_key(self, model_name: str) -> ModelKey:
        """Return the key of the baseline of a model."""
        return group_of(dict(self.target.labels), self.target.name), model_name

    # Polls

    def fits(self, target: Target, config: Config) -> bool:
        """Return whether the target and its settings are unchanged."""
        return (self.target, *_settings(self._config)) == (target, *_settings(config))

    async def change(self, target: Target, config: Config) -> None:
        """Continue with another configuration and the same windows; its poller must have ended."""
        await self._client.close()
        self._configure(target, config)
        self._use_served(is_another=True)

    def poller(self) -> Poller:
        """Return a new poller, which passes the target's pages to this monitor."""
        shared = self._shared
        return Poller(
            self.target.name,
            self.target.url,
            client=self._client,
            poll=self._config.poll,
            shortest_window=self._config.windows[0],
            histogram_phase=shared.phase(f"histograms of {self.target.url}"),
            budget=shared.budget,
            clock=shared.clock,
            receive=self._receive,
            emit=self.record_event,
            attempted=self._note_gone,
            record=self._record,
            recorded=shared.recorded,
            layout_bytes=shared.limit(self._config) * LAYOUT_BYTES,
        )

    async def close(self) -> None:
        """Close the connection, and free the places of the engines."""
        self._take_places(-self._places)
        await self._client.close()

    def take(self, polled: Polled, size: int, speculation: ServedSpeculation | None) -> None:
        """Take a page of ``size`` bytes that was polled earlier, and the speculation that was reported."""
        record, settings = self._record, polled.reading.settings
        record.polls, record.page = record.polls + 1, "whole"
        record.speculation = speculation if settings is None else labelled_speculation(settings)
        record.succeeded(0.0, size, len(polled.reading.samples), polled.wall)
        for _ in self._receive(polled):
            pass  # a recording is read without yields to the event loop
        self._note_gone()

    def take_failure(self, reason: Reason) -> None:
        """Take a poll that failed earlier."""
        self._record.polls += 1
        if self._record.failed(reason, "as recorded"):
            self.record_event(Event("target_failing", {"reason": reason, "error": "as recorded"}))
        self._note_gone()

    # Readers

    def snapshots(self) -> Iterator[tuple[dict[str, str], EngineSnapshot]]:
        """Yield the labels and the snapshot of every engine that was evaluated, by its last evaluation."""
        self._note_gone()
        known = self._each("snapshots", attrgetter("snapshot"))
        return ((labels, snapshot) for labels, snapshot in known if snapshot is not None)

    def snapshots_over(self, seconds: float, now: float) -> Iterator[tuple[dict[str, str], EngineSnapshot]]:
        """Yield the same over the last ``seconds`` alone: see ``EngineMonitor.snapshot_over``."""
        return self._each("findings", lambda engine: engine.snapshot_over(seconds, now))

    def costs(self) -> Iterator[tuple[str, CostRange]]:
        """Yield ``model_name`` and cost of each engine with a known cost."""
        known = self._each("costs", attrgetter("cost"))
        return ((labels["model_name"], cost) for labels, cost in known if cost is not None)

    def members(self, now: float, times: RequestTimes) -> Iterator[ExperimentMember]:
        """Yield every engine as a member of experiments at ``now`` (monotonic)."""
        members = self._each("comparison", lambda engine: (engine.method, engine, engine.windows(now)))
        for labels, (method, engine, windows) in members:
            own = {"name": self.target.name, "model_name": labels["model_name"], "method": method}
            types = partial(times, labels["model_name"], self.target.name)
            member = Member({**dict(self.target.labels), **own}, windows, engine.history.latencies(), types)
            yield member, engine

    def status(self) -> TargetStatus:
        """Return the status of the target and of its polls."""
        target, record = self.target, self._record
        interval = record.interval or self._config.poll.interval
        pace = record.pace or interval
        return TargetStatus(
            replace(record, failures=record.failures.copy(), interval=interval, pace=pace),
            engine_kind=self._server.engine_kind,
            front_end=self._server.front_end,
            engines_not_monitored=self._not_monitored,
            name=target.name,
            address=self._address,
            labels=self.labels,
            discovery=target.discovery,
            engines=tuple(
                (each.labels["model_name"], each.labels["engine"]) for each in self.engines.values()
            ),
        )

    def remember(self) -> None:
        """Hand over the learned state of the engines for persistence."""
        for name in self.engines:
            self._remember(name)

    def record_event(self, event: Event, labels: Item | None = None) -> None:
        """Record an event of the target, or of one of its engines."""
        self._shared.events.record(event, self._shared.clock.wall(), labels or self.item)

    def _each(self, part: str, work: Callable[[EngineMonitor], T]) -> Iterator[tuple[dict[str, str], T]]:
        """Yield the labels of every engine and the result of ``work``; omit an engine for which it raises."""
        own, engines = dict(self.target.labels), list(self.engines.values())
        return self._shared.errors.each(
            part, engines, attrgetter("labels"), lambda engine: ({**engine.labels, **own}, work(engine))
        )

    # Settings

    def _configure(self, target: Target, config: Config) -> None:
        self.target = target
        self.item: Item = {"target": target.name}  # log fields that name the target
        self.labels: Mapping[str, str] = {"target": target.name, **dict(target.labels)}
        self._address = f"{address(target.url)}{urlsplit(target.url).path}"
        self._config = config
        resolver, poll = LIST_RESOLVER if target.found_by else CONFIG_RESOLVER, config.poll
        self._client = Client(target.http, timeout=poll.timeout, max_body=poll.max_body, resolver=resolver)
        self._take_places(sum(map(self._places_of, self.engines)) - self._places)
        problem = target.pod_arguments.problem if target.pod_arguments else ""
        if problem and self._record.is_news("pod_arguments", problem):
            fields = {"source": "pod_arguments", "reason": problem}
            self.record_event(Event("server_details_not_used", fields))

    def _assumptions(self, name: EngineName) -> Assumptions:
        target, config, served, url = self.target, self._config, self._served, Url.of(self.target.url)
        model_name = name.model_name or model_of(target.url)
        return Assumptions(
            resolve(target.speculative, target.method_label, served, target.pod_arguments, model_name),
            target.cost or config.cost,
            target.policy or config.policy,
            target.reference or config.reference,
            self._server.engine_kind,
            f"{url.scheme}://{url.authority}{url.target.partition('?')[0].removesuffix('/metrics')}",
            self._server.kv_cache,
            config.place,
            self._server.front_end,
            self._ranks.get(name.replica, 1) > 1,
        )

    def _use_served(self, *, is_another: bool = False) -> None:
        """Use what the server reported since the last poll, or other settings, in the engines."""
        if self._record.speculation != self._served or is_another:
            self._served = self._record.speculation
            for name, engine in self.engines.items():
                engine.use(self._config.windows, self._assumptions(name))

    # Pages

    def _receive(self, polled: Polled) -> Generator[None, None, bool]:
        """Take a page; return whether the counters of any engine were reset."""
        reading = polled.reading
        server = PageReading(reading.engine_kind, reading.front_end, {}, kv_cache=reading.kv_cache)
        ranks = Tally(name.replica for name in reading.samples) if len(reading.samples) > 1 else {}
        is_another = (server, ranks) != (self._server, self._ranks)
        self._server, self._ranks = server, ranks
        self._use_served(is_another=is_another)
        # Without any known engine it is another server, or the server has another model.
        was_reset = bool(self.engines) and self.engines.keys().isdisjoint(reading.samples)
        for number, (engine, sample) in enumerate(self._admitted(polled), 1):
            was_reset |= self._observe(engine, sample, polled)
            if number % ENGINES_SLICE == 0:
                yield
        if was_reset and self._record.speculation:  # its K is that of the process before
            self._record.speculation = replace(self._record.speculation, tokens=None)
            self._use_served()
        return was_reset

    def _observe(self, engine: EngineMonitor, sample: Sample, polled: Polled) -> bool:
        """Take an engine's sample, and evaluate it in time; return whether its counters were reset."""
        pace, moments = self._shared.pace, (polled.moment, polled.wall, polled.interval)
        observe = partial(engine.observe, sample, *moments, self._config.poll.histogram_interval)
        observed = self._record_events("counting", engine, observe)
        if self._shared.is_due(engine, polled):
            evaluate = partial(engine.evaluate, in_full=pace > polled.interval)
            self._record_events("evaluation", engine, evaluate)
            if engine.snapshot:
                labels = {**engine.labels, **dict(self.target.labels)}
                for call in self._shared.after_evaluation:
                    call(labels, engine.snapshot, pace)
        return any(event.name == "engine_reset" for event in observed)

    def _record_events(
        self, part: str, engine: EngineMonitor, work: Callable[[], Sequence[Event]]
    ) -> Sequence[Event]:
        """Record and return the events of an engine; none if ``work`` raises, which is an event too."""
        events = self._shared.engine_errors.attempt(part, engine.labels, work) or ()
        for event in events:
            self.record_event(event, engine.labels)
        return events

    # Admission and eviction

    def _admitted(self, polled: Polled) -> list[tuple[EngineMonitor, Sample]]:
        """Return the samples of monitored engines, and of new ones as far as there are places."""
        samples = polled.reading.samples
        if samples.keys() != self.engines.keys():
            new = [name for name in samples if name not in self.engines]
            self._evict(new, polled)
            for name in new:
                if self._fit(name):
                    self._add(name, polled)
        admitted = [(self.engines[name], sample) for name, sample in samples.items() if name in self.engines]
        before, self._not_monitored = self._not_monitored, len(samples) - len(admitted)
        if self._not_monitored and not before:
            remedy = "raise limits.engines and the memory limit of the container"
            fields: Fields = {"engines": self._not_monitored, "kept": len(admitted), "remedy": remedy}
            self.record_event(Event("engines_not_monitored", fields))
        return admitted

    def _evict(self, new: Sequence[EngineName], polled: Polled) -> None:
        """Evict engines that left long ago, and the oldest whose places are needed."""
        left = self.engines.keys() - polled.reading.samples.keys()
        seen = {name: self.engines[name].history.last_seen for name in left}
        for name in sorted(left, key=seen.__getitem__):
            if polled.moment - seen[name] <= EVICTED_AFTER and self._fit(*new):
                break
            self._drop(name)

    def _drop(self, name: EngineName) -> None:
        self._remember(name)
        del self.engines[name]
        self._take_places(-self._places_of(name))

    def _fit(self, *new: EngineName) -> bool:
        required = self._shared.places_taken + sum(map(self._places_of, new))
        return required <= self._shared.limit(self._config) and len(self.engines) + len(new) <= MAX_ENGINES

    def _add(self, name: EngineName, polled: Polled) -> None:
        shared, remembered = self._shared, self._shared.remembered
        labels = {
            "target": self.target.name,
            "model_name": name.model_name or model_of(self.target.url) or self.target.name,
            "engine": name.engine or "0",
        }
        for other in [other for other, engine in self.engines.items() if engine.labels == labels]:
            self._drop(other)  # the server names its model now, or no longer: no page has a series twice
        self.engines[name] = EngineMonitor(
            self._config.windows,
            self._assumptions(name),
            remembered.baseline(self.model_key(name.model_name)),
            remembered.engine((self.target.name, *name), polled.wall),
            labels=labels,
            phase=shared.phase(f"evaluation of {name} at {self.target.url}"),
            errors=shared.errors,
        )
        self._take_places(self._places_of(name))
        self.record_event(Event("engine_found", {"kind": polled.reading.engine_kind}), labels)

    def _remember(self, name: EngineName) -> None:
        engine, clock, remembered = self.engines[name], self._shared.clock, self._shared.remembered
        learned = self._shared.errors.attempt("saving", engine.labels, lambda: engine.learned.state)
        if learned is not None:
            seen = engine.history.last_seen + clock.wall() - clock.monotonic()
            remembered.keep_engine((self.target.name, *name), learned, seen)
        remembered.keep_baseline(self.model_key(name.model_name), engine.learned.baseline)

    def _note_gone(self) -> None:
        """Free the evaluations of engines that are gone, and record it: bad only if the target is up."""
        now, is_bad = self._shared.clock.monotonic(), bool(self._record.up)
        for engine in self.engines.values():
            self._record_events("gone", engine, partial(engine.gone, now, is_bad=is_bad))

    def _take_places(self, number: int) -> None:
        self._places += number
        self._shared.take_places(number)

    def _places_of(self, name: EngineName) -> int:
        """Return the places that an engine takes: one, or more with long labels."""
        values = (*self.labels.values(), *name)
        return max(1, ceil(sum(len(value.encode()) for value in values) / PLACE_LABELS))


def container_memory(files: Iterable[str | Path] = _MEMORY_LIMITS) -> int | None:
    """Return the memory limit of the container in bytes; None without one, or if it is unknown."""
    for file in files:
        with suppress(OSError, ValueError):
            return int(Path(file).read_text(encoding="ascii"))
    return None


def engines_that_fit(memory: int | None) -> int:
    """Return the number of engines that fit into ``memory`` bytes; None is no limit."""
    fit = WITHOUT_LIMIT if memory is None else (memory - _OWN_MEMORY) // _ENGINE_MEMORY
    return min(WITHOUT_LIMIT, max(MIN_ENGINES, fit))
