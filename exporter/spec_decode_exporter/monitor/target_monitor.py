"""Monitor of one target: its polls, and the monitors of its engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TypeVar

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import resolve
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.capacity import Capacity
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.cooperative_yield import Pausing, finish
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.experiments.experiment import Member
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.monitor.event_budget import EventBudget
from spec_decode_exporter.monitor.event_log import EventLog, run_name
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMember
from spec_decode_exporter.monitor.persistence.remembered_baselines import BaselineKey
from spec_decode_exporter.monitor.persistence.remembered_engines import EngineKey, RememberedEngines
from spec_decode_exporter.monitor.target_engines import TargetEngines
from spec_decode_exporter.monitor.target_status import TargetStatus, status_of
from spec_decode_exporter.requests.request_types import RequestTypes
from spec_decode_exporter.scrape.http.client import Client
from spec_decode_exporter.scrape.http.resolver import CONFIG_RESOLVER, Resolver
from spec_decode_exporter.scrape.page.layout_map import MAX_ENGINES
from spec_decode_exporter.scrape.page.sample import EngineName, PageReading, Sample
from spec_decode_exporter.scrape.poll.poll_budget import PollBudget
from spec_decode_exporter.scrape.poll.poll_record import Polled, PollRecord
from spec_decode_exporter.scrape.poll.poll_schedule import PollSettings, phase
from spec_decode_exporter.scrape.poll.poll_scheduler import PollScheduler
from spec_decode_exporter.scrape.poll.poller import Poller
from spec_decode_exporter.scrape.poll.raw_poll import Recorded
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation
from spec_decode_exporter.scrape.poll_errors import Reason
from spec_decode_exporter.window.history import Window

T = TypeVar("T")

_settings = attrgetter("poll", "windows", "cost", "reference", "policy")
"""Settings of a configuration that apply to a target."""
ENGINES_SLICE = 4
"""Engines between two yields to the event loop: they take at most a few milliseconds each."""


class TargetMonitor:
    """Polls a target and monitors each of its engines."""

    def __init__(
        self,
        target: Target,
        config: Config,
        clock: Clock,
        remembered: RememberedEngines,
        events: EventLog | EventBudget | None = None,
        *,
        capacity: Capacity | None = None,
        budget: PollBudget | None = None,
        scheduler: PollScheduler | None = None,
        spread: bool = True,
        errors: InternalErrors | None = None,
        resolver: Resolver = CONFIG_RESOLVER,
        types: RequestTypes | None = None,
        recorded: Recorded | None = None,
    ) -> None:
        """Prepare to ``run``.

        Args:
            target: Target to poll.
            config: Configuration in force.
            clock: Clock.
            remembered: Learned state of engines of earlier processes.
            events: Takes the events; by default they are only logged.
            capacity: Places of engines, shared with other targets; by default those of one page.
            budget: Processor time of polls, shared with other targets.
            scheduler: Wakes the polls, and ends requests that time out, of other targets too.
            spread: Shift rarer work by a phase of this target, so that a fleet does not do it all at once.
            errors: Isolates internal errors.
            resolver: Resolves the target's name.
            types: Times of the fleet's requests by type.
            recorded: Takes each raw poll, to record it.
        """
        self._clock = clock
        self._remembered = remembered
        self._events = EventBudget(events or EventLog(run_name(clock.wall())), clock.monotonic)
        self._errors = errors or InternalErrors(clock.monotonic)
        self._engines = TargetEngines(target, capacity or Capacity(MAX_ENGINES))
        self._server = PageReading("", "", {})
        """Server data of the newest page, without its samples: they take megabytes on a large page."""
        self._record = PollRecord()
        self._budget = budget or PollBudget(clock, MAX_ENGINES)
        self._scheduler = scheduler or PollScheduler(clock)
        self._phase = phase if spread else lambda _: 0.0
        self._served: ServedSpeculation | None = None
        self._resolver = resolver
        self._types = types or RequestTypes()
        self._recorded = recorded
        self._configure(target, config)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the target: its name and its configured labels."""
        return self._engines.target_labels

    def fits(self, target: Target, config: Config) -> bool:
        """Return whether the target and its settings are unchanged."""
        return (self.target, *_settings(self._config)) == (target, *_settings(config))

    async def change(self, target: Target, config: Config) -> None:
        """Continue with another configuration and the same windows; ``run`` must have ended."""
        await self._client.close()
        windows_differ = config.windows != self._config.windows
        self._configure(target, config)
        for name, engine in self._engines.monitors.items():
            if windows_differ:
                engine.keep(config.windows)
            engine.assume(self._assumptions(name.model_name))

    async def run(self) -> None:
        """Poll until cancelled."""
        await self._poller.run()

    async def poll(self) -> None:
        """Poll once, now."""
        await self._poller.poll()

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    def snapshots(self, now: float) -> Iterator[tuple[dict[str, str], EngineSnapshot]]:
        """Yield the labels and the snapshot of every engine at ``now`` (monotonic)."""
        return self._each("findings", lambda engine: engine.snapshot(now))

    def snapshots_over(self, seconds: float, now: float) -> Iterator[tuple[dict[str, str], EngineSnapshot]]:
        """Yield the same over the last ``seconds`` alone: see ``EngineMonitor.snapshot_over``."""
        return self._each("findings", lambda engine: engine.snapshot_over(seconds, now))

    def costs(self) -> Iterator[tuple[str, Cost]]:
        """Yield ``model_name`` and cost of each engine with a known cost."""
        known = self._each("costs", lambda engine: engine.cost)
        return ((labels["model_name"], cost) for labels, cost in known if cost is not None)

    def members(self, now: float) -> Iterator[ExperimentMember]:
        """Yield every engine as a member of experiments at ``now`` (monotonic)."""
        members = self._each("comparison", lambda engine: (engine.method, engine, engine.windows(now)))
        for labels, (method, engine, windows) in members:
            own = {"name": self.target.name, "model_name": labels["model_name"], "method": method}
            times = partial(self._types.times, labels["model_name"], self.target.name)
            member = Member({**dict(self.target.labels), **own}, windows, engine.history.latencies(), times)
            yield ExperimentMember(member, engine)

    def histories(self) -> Iterator[tuple[dict[str, str], Window]]:
        """Yield the labels and the longest window of every engine, also of engines that are gone."""
        longest = self._config.windows[-1]
        return self._each("history", lambda engine: engine.history.windows(longest)[0])

    def remember(self) -> None:
        """Hand over the learned state of the engines for persistence."""
        for name in self._engines.monitors:
            self._remember(name)

    def record_event(self, event: Event) -> None:
        """Record an event of the target."""
        self._events.record(event, self._clock.wall(), self.target.name)

    def status(self) -> TargetStatus:
        """Return the status of the target and of its polls."""
        ids = self._errors.whole("targets", self.item, self._engines.labelled)
        return status_of(
            self.target, self._record, self._server, self._engines, interval=self._poller.interval, names=ids
        )

    def _each(self, part: str, work: Callable[[EngineMonitor], T]) -> Iterator[tuple[dict[str, str], T]]:
        """Yield the labels of every engine and the result of ``work``; omit an engine that fails.

        It raises nothing, so that a reader of all targets continues with the next one.
        """
        shown = self._errors.whole(part, self.item, self._engines.shown)
        return self._errors.each(
            part, shown, lambda engine: engine[0], lambda engine: (engine[0], work(engine[1]))
        )

    def _configure(self, target: Target, config: Config) -> None:
        poll = config.poll
        self.target = target
        self.item: Mapping[str, str] = {"target": target.name}
        """Log fields that name the target."""
        self._config = config
        self._engines.configure(target)
        self._client = Client(
            target.http,
            timeout=poll.timeout,
            max_body=poll.max_body,
            resolver=self._resolver,
            timeouts=self._scheduler.timeouts,
        )
        self._poller = Poller(
            target.name,
            target.url,
            client=self._client,
            settings=PollSettings.of(poll, config.windows[0], self._phase(f"histograms of {target.url}")),
            clock=self._clock,
            sleep_until=self._scheduler.sleep_until,
            receive=self._receive,
            emit=self.record_event,
            attempted=lambda: self._errors.attempt("gone", self.item, self._record_gone),
            record=self._record,
            budget=self._budget,
            recorded=self._recorded,
        )
        self._tokens = self._assumptions().speculation.tokens or 0
        problem = target.pod_arguments.problem if target.pod_arguments else ""
        unused = self._record.unused_event("pod_arguments", problem, problem) if problem else None
        if unused is not None:
            self.record_event(unused)

    def _assumptions(self, model_name: str = "") -> Assumptions:
        """Return the knowledge of the target's engines of a model besides their counters."""
        target, config = self.target, self._config
        return Assumptions(
            resolve(
                target.speculative,
                target.method_label,
                self._record.speculation,
                target.pod_arguments,
                model_name,
            ),
            target.cost or config.cost,
            target.policy or config.policy,
            target.reference or config.reference,
        )

    def _update_speculation(self) -> None:
        """Use the speculation that the server reported since the last poll."""
        if self._record.speculation == self._served:
            return
        self._served = self._record.speculation
        self._tokens = self._assumptions().speculation.tokens or 0
        for name, engine in self._engines.monitors.items():
            engine.assume(self._assumptions(name.model_name))

    def take(self, polled: Polled, size: int, speculation: ServedSpeculation | None) -> None:
        """Take a page of ``size`` bytes that was polled earlier, and the speculation that was reported."""
        record = self._record
        record.polls, record.speculation, record.page = record.polls + 1, speculation, "whole"
        record.succeeded(0.0, size, len(polled.reading.samples), polled.wall)
        finish(self._receive(polled))
        self._record_gone()

    def take_failure(self, reason: Reason) -> None:
        """Take a poll that failed earlier."""
        self._record.polls += 1
        if self._record.failed(reason, "as recorded"):
            self.record_event(
                Event("target_failing", {"reason": reason, "error": "as recorded"}, is_bad=True)
            )
        self._record_gone()

    def _receive(self, polled: Polled) -> Pausing[bool]:
        """Take a page; return whether the counters of any engine were reset."""
        reading, server, engines = polled.reading, self._server, self._engines
        if (reading.engine_kind, reading.front_end) != (server.engine_kind, server.front_end):
            self._server = reading._replace(samples={})
        self._update_speculation()
        # Without any known engine it is another server, or the server has another model.
        was_reset = bool(engines.monitors) and engines.monitors.keys().isdisjoint(reading.samples)
        observed = self._errors.each(
            "counting",
            self._admitted(reading).items(),
            lambda engine: self._item_of(engine[0]),
            lambda engine: self._observe(*engine, polled),
        )
        for number, engine_was_reset in enumerate(observed, 1):
            was_reset |= engine_was_reset
            if number % ENGINES_SLICE == 0:
                yield
        for event in engines.evict(polled.moment, self._remember):
            self._events.record(event, polled.wall, self.target.name)
        return was_reset

    def _remember(self, name: EngineName) -> None:
        engine = self._engines.monitors[name]
        learned = self._errors.attempt("saving", self._item_of(name), engine.learned)
        if learned is not None:
            seen = engine.history.last_seen + self._clock.wall() - self._clock.monotonic()
            self._remembered.keep(self._key(name), learned, seen)
        self._remembered.baselines.keep(self._baseline_key(name), engine.baseline)

    def _admitted(self, reading: PageReading) -> Mapping[EngineName, Sample]:
        """Return the samples of the engines that have a place; record once that others have none."""
        samples = self._engines.admitted(reading.samples, self._tokens)
        for event in self._engines.limit_events(len(reading.samples) - len(samples), len(samples)):
            self.record_event(event)
        return samples

    def _observe(self, name: EngineName, sample: Sample, polled: Polled) -> bool:
        """Take an engine's sample; return whether its counters were reset."""
        engine = self._engines.monitors.get(name) or self._add(name, polled)
        engine.history.always_counts_drafts = polled.reading.front_end == "rust"
        engine.history.data_parallel = len(polled.reading.samples) > 1
        engine.evaluate_every(self._engines.evaluation_interval)
        events = engine.observe(
            sample, polled.moment, polled.wall, polled.interval, self._config.poll.histogram_interval
        )
        for event in events:
            self._record_engine_event(event, name, polled.wall)
        return any(event.name == "engine_reset" for event in events)

    def _add(self, name: EngineName, polled: Polled) -> EngineMonitor:
        own_phase = self._phase(f"evaluation of {name} at {self.target.url}")
        baseline = self._remembered.baselines.of(self._baseline_key(name))
        assumptions = self._assumptions(name.model_name)
        engine = EngineMonitor(self._config.windows, assumptions, own_phase, baseline)
        learned = self._remembered.known(self._key(name))
        if learned is not None:
            engine.remember(learned)
        self._engines.monitors[name] = engine
        if not self._engines.churn.is_churning(polled.moment):
            event = Event("engine_found", {"kind": polled.reading.engine_kind})
            self._record_engine_event(event, name, polled.wall)
        return engine

    def _record_gone(self) -> None:
        """Record engines that are gone; an operator should look at them if the target is up.

        A target that is down, and engine churn, have events of their own.
        """
        now, is_up = self._clock.monotonic(), bool(self._record.up)
        is_any_gone = any(engine.history.is_gone(now) for engine in self._engines.monitors.values())
        if not is_any_gone or self._engines.churn.is_churning(now):
            return
        for labels, engine in self._engines.labelled().items():
            for event in engine.gone_events(now, is_bad=is_up):
                self._events.record(event, self._clock.wall(), self.target.name, labels)

    def _record_engine_event(self, event: Event, name: EngineName, wall: float) -> None:
        self._events.record(event, wall, self.target.name, self._engines.labels_of(name))

    def _item_of(self, name: EngineName) -> dict[str, str]:
        """Return the log fields that name an engine."""
        model_name, engine = self._engines.labels_of(name)
        return {"target": self.target.name, "model_name": model_name, "engine": engine}

    def _key(self, name: EngineName) -> EngineKey:
        return EngineKey(self.target.name, name.model_name, name.engine)

    def _baseline_key(self, name: EngineName) -> BaselineKey:
        return BaselineKey(self.target.name, name.model_name)
