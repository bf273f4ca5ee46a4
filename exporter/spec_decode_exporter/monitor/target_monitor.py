"""One target, watched: from its polls to the findings about its engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.evaluation import Assumptions
from spec_decode_exporter.analysis.experiments.experiment import Member
from spec_decode_exporter.analysis.speculation import resolve
from spec_decode_exporter.config.policy import merged
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.capacity import Capacity
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.cooperative_yield import Pausing
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.discovery.target import Target, address
from spec_decode_exporter.monitor.admission import Admission
from spec_decode_exporter.monitor.engine_churn import EngineChurn
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor, EngineSnapshot
from spec_decode_exporter.monitor.event_budget import EventBudget
from spec_decode_exporter.monitor.event_log import EventLog, run_name
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMember
from spec_decode_exporter.monitor.remembered_engines import Key, RememberedEngines
from spec_decode_exporter.scrape.http.client import Client
from spec_decode_exporter.scrape.http.resolver import CONFIGURED, Resolver
from spec_decode_exporter.scrape.page.layout_map import MOST_ENGINES
from spec_decode_exporter.scrape.page.sample import EngineName, PageReading, Sample
from spec_decode_exporter.scrape.poll.poll_budget import PollBudget
from spec_decode_exporter.scrape.poll.poll_schedule import phase
from spec_decode_exporter.scrape.poll.poller import Polled, Poller, PollPace, PollRecord
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation
from spec_decode_exporter.scrape.poll_errors import REASONS
from spec_decode_exporter.views.engine_view import id_of
from spec_decode_exporter.views.models import TargetView
from spec_decode_exporter.views.target_status import TargetStatus
from spec_decode_exporter.window.ledger import Window

T = TypeVar("T")

FORGOTTEN_AFTER = 3600.0
"""An engine that was not seen for so many seconds is forgotten, its counters too."""
ENGINES_SLICE = 4
"""Engines that are observed and evaluated from one pause to the next: at most a few milliseconds each."""


class TargetMonitor:
    """Polls a target and keeps a watch over each of its engines."""

    def __init__(
        self,
        target: Target,
        config: Config,
        clock: Clock,
        baselines: RememberedEngines,
        events: EventLog | EventBudget | None = None,
        *,
        capacity: Capacity | None = None,
        budget: PollBudget | None = None,
        spread: bool = True,
        errors: InternalErrors | None = None,
        resolver: Resolver = CONFIGURED,
    ) -> None:
        """Be ready to ``run``. Engines go on with what ``baselines`` knows of them.

        What happens goes through ``events``; without them it is written to the log and not kept for others.
        ``resolver`` looks up its name. ``capacity`` limits its engines, ``budget`` what its polls take, both
        together with those of other targets; without them, the target has as much as one page may take.
        With ``spread`` it has moments of its own for what is done less often than polled, so that a fleet
        does not do it all at once; without, they are those of its first poll.
        """
        self._clock = clock
        self._baselines = baselines
        self._events = EventBudget(events or EventLog(run_name(clock.wall())), clock.monotonic)
        self._errors = errors or InternalErrors(clock.monotonic)
        self._engines: dict[EngineName, EngineMonitor] = {}
        self._server = PageReading("", "", {})
        """Server data of the newest page, without samples: a large page has megabytes of them."""
        self._record = PollRecord()
        self._churn = EngineChurn()
        self._admission = Admission(capacity or Capacity(MOST_ENGINES), self._columns)
        self._budget = budget or PollBudget(clock, MOST_ENGINES)
        self._not_watched = 0
        self._phase = phase if spread else lambda _: 0.0
        self._served: ServedSpeculation | None = None
        self._resolver = resolver
        self._configure(target, config)

    @property
    def labels(self) -> dict[str, str]:
        """The target's labels: its name, and what was configured."""
        return {"target": self.target.name, **dict(self.target.labels)}

    @property
    def item(self) -> Mapping[str, str]:
        """The log fields that name the target."""
        return {"target": self.target.name}

    def fits(self, target: Target, config: Config) -> bool:
        """Return whether nothing about the polling of this target has changed."""
        return (self.target, *_settings(self._config)) == (target, *_settings(config))

    async def change(self, target: Target, config: Config) -> None:
        """Go on with another configuration; windows and counters stay. Not while ``run`` is under way."""
        await self._client.close()
        windows_differ = config.windows != self._config.windows
        self._configure(target, config)
        for engine in self._engines.values():
            if windows_differ:
                engine.keep(config.windows)
            engine.assume(self._assumptions())

    async def run(self) -> None:
        """Poll for ever."""
        await self._poller.run()

    async def poll(self) -> None:
        """Poll once, now."""
        await self._poller.poll()

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    def findings(
        self, now: float, most_behind: float = 0.0
    ) -> Iterator[tuple[dict[str, str], EngineSnapshot]]:
        """Yield the labels and findings of every engine at ``now`` (monotonic): see ``EngineMonitor``."""
        return self._each("findings", lambda engine: engine.findings(now, most_behind))

    def findings_over(self, seconds: float, now: float) -> Iterator[tuple[dict[str, str], EngineSnapshot]]:
        """Yield the same, judged by the last ``seconds`` alone: see ``EngineWatch.findings_over``."""
        return self._each("findings", lambda engine: engine.findings_over(seconds, now))

    def costs(self) -> Iterator[tuple[str, Cost, bool]]:
        """Yield what drafting costs at each engine where that is known, by the label ``model_name``.

        With it goes whether it is sure enough to call something harmful by it.
        """
        for labels, (cost, is_sure) in self._each("costs", lambda engine: (engine.cost, engine.is_cost_sure)):
            if cost is not None:
                yield labels["model_name"], cost, is_sure

    def members(self, now: float) -> Iterator[ExperimentMember]:
        """Yield every engine as experiments see it at ``now`` (monotonic)."""
        found = self._each("comparison", lambda engine: (engine.method, engine.windows(now), engine))
        for labels, (method, windows, engine) in found:
            own = {"name": self.target.name, "model_name": labels["model_name"], "method": method}
            yield ExperimentMember(Member({**dict(self.target.labels), **own}, windows), engine)

    def histories(self) -> Iterator[tuple[dict[str, str], Window]]:
        """Yield the labels and the longest window of every engine, also of one that is gone."""
        longest = self._config.windows[-1]
        return self._each("history", lambda engine: engine.history.window(longest))

    def evaluate(self) -> None:
        """Judge every engine by its newest poll."""
        for engine in self._engines.values():
            engine.evaluate()

    def remember(self) -> None:
        """Hand what the engines have learnt to the baselines."""
        offset = self._clock.wall() - self._clock.monotonic()
        for name, engine in self._engines.items():
            learned = self._errors.attempt("saving", self._named(name), engine.learned)
            if learned is not None:
                self._baselines.keep(self._key(name), learned, engine.history.last_seen + offset)

    def status(self) -> TargetStatus:
        """Return how the polls go."""
        record, server = self._record, self._server
        return TargetStatus(
            up=record.up,
            engine_kind=server.engine_kind,
            front_end=server.front_end,
            page=record.page,
            version=record.version,
            polls=record.polls,
            failures=record.failures,
            poll_seconds=record.seconds,
            poll_bytes=record.size,
            interval=self._poller.interval,
            last_success=record.last_success,
            engines_forgotten=self._churn.forgotten,
            engines_not_watched=self._not_watched,
        )

    def view(self) -> TargetView:
        """Return what JSON says of the target."""
        record, server, parts = self._record, self._server, urlsplit(self.target.url)
        return TargetView(
            target=self.target.name,
            address=f"{address(self.target.url)}{parts.path}",
            labels=self.labels,
            discovery=self.target.discovery,
            up=record.up,
            error=f"{record.error}: {record.message}" if record.error else "",
            engine_kind=server.engine_kind,
            front_end=server.front_end,
            page=record.page,
            version=record.version,
            polls=record.polls,
            poll_failures={reason: record.failures[reason] for reason in REASONS},
            poll_seconds=record.seconds,
            poll_bytes=record.size,
            poll_interval_seconds=self._poller.interval,
            last_success_timestamp_seconds=record.last_success,
            engines=tuple(id_of(labels) for labels, _ in self._shown()),
        )

    def _each(self, part: str, work: Callable[[EngineMonitor], T]) -> Iterator[tuple[dict[str, str], T]]:
        """Yield the labels of every engine that is shown, and the result of ``work``; omit one that fails.

        Nothing is raised, so that a reader of all targets goes on to the next one.
        """
        shown = self._errors.whole(part, self.item, self._shown)
        return self._errors.each(part, shown, lambda one: one[0], lambda one: (one[0], work(one[1])))

    def _shown(self) -> Iterator[tuple[dict[str, str], EngineMonitor]]:
        """Yield the labels of every engine that is shown."""
        own = dict(self.target.labels)
        for (model_name, number), engine in self._seen_last().items():
            yield {"target": self.target.name, "model_name": model_name, "engine": number, **own}, engine

    def _seen_last(self) -> dict[tuple[str, str], EngineMonitor]:
        """Return the engine that is shown under each pair of the labels ``model_name`` and ``engine``.

        A server that no longer names its model, or now does, may show an engine under labels that an
        earlier one had: then the one seen last has them, since no page may show a series twice.
        """
        shown: dict[tuple[str, str], EngineMonitor] = {}
        for name, engine in self._engines.items():
            labels = self._shown_name(name)
            other = shown.get(labels)
            if other is None or other.history.last_seen <= engine.history.last_seen:
                shown[labels] = engine
        return shown

    def _shown_name(self, name: EngineName) -> tuple[str, str]:
        """Return the labels ``model_name`` and ``engine``; what the server does not say, its target does."""
        return name.model_name or self.target.name, name.engine or "0"

    def _configure(self, target: Target, config: Config) -> None:
        poll = config.poll
        self.target = target
        self._config = config
        self._admission.label(list(self.labels.values()))
        self._client = Client(
            target.http, timeout=poll.timeout, max_body=poll.max_body, resolver=self._resolver
        )
        self._poller = Poller(
            target.name,
            target.url,
            client=self._client,
            pace=PollPace(
                interval=poll.interval,
                histogram_interval=poll.histogram_interval,
                max_duty_cycle=poll.max_duty_cycle,
                shortest_window=config.windows[0],
                filtered=poll.filter == "auto",
                histogram_phase=self._phase(f"histograms of {target.url}"),
            ),
            clock=self._clock,
            receive=self._receive,
            tell=lambda event: self._events.record(event, self._clock.wall(), target.name),
            attempted=lambda: self._errors.attempt("gone", self.item, self._tell_gone),
            record=self._record,
            budget=self._budget,
        )
        problem = target.pod_arguments.problem if target.pod_arguments else ""
        unused = self._record.unused_event("pod_arguments", problem, problem) if problem else None
        if unused is not None:
            self._events.record(unused, self._clock.wall(), target.name)

    def _assumptions(self) -> Assumptions:
        """Put together what is known of the target's engines besides their counters."""
        target, config = self.target, self._config
        return Assumptions(
            resolve(target.speculative, target.method_label, self._record.speculation, target.pod_arguments),
            target.cost or config.cost,
            merged(target.policy, config.policy),
            target.reference or config.reference,
        )

    def _learn_speculation(self) -> None:
        """Take what the server has said of its speculation since the last poll."""
        if self._record.speculation == self._served:
            return
        self._served = self._record.speculation
        for engine in self._engines.values():
            engine.assume(self._assumptions())

    def _receive(self, polled: Polled) -> Pausing[bool]:
        """Take a page; return whether the counters of any engine began anew."""
        reading, server = polled.reading, self._server
        if (reading.engine_kind, reading.front_end) != (server.engine_kind, server.front_end):
            self._server = replace(reading, samples={})
        self._learn_speculation()
        # Where no engine is known any more, it is another server, or another model on it.
        began_again = bool(self._engines) and self._engines.keys().isdisjoint(polled.reading.samples)
        for number, (name, sample) in enumerate(self._admitted(polled.reading).items(), 1):
            observe = partial(self._observe, name, sample, polled)
            began_again |= bool(self._errors.attempt("counting", self._named(name), observe))
            if number % ENGINES_SLICE == 0:
                yield
        for event in self._forget(polled.moment):
            self._events.record(event, polled.wall, self.target.name)
        return began_again

    def _admitted(self, reading: PageReading) -> Mapping[EngineName, Sample]:
        """Return the samples of the engines for which there is a place; log once that some have none."""
        tokens = self._assumptions().speculation.tokens or 0
        samples = self._admission.admitted(self.target.key, reading.samples, list(self._engines), tokens)
        self._note_not_watched(len(reading.samples) - len(samples), len(samples))
        return samples

    def _columns(self, name: EngineName) -> int:
        """Return the draft positions of an engine so far; 0 if it is not watched."""
        engine = self._engines.get(name)
        return engine.history.columns if engine else 0

    def _note_not_watched(self, number: int, kept: int) -> None:
        if number and not self._not_watched:
            fields: dict[str, object] = {
                "engines": number,
                "kept": kept,
                "remedy": "raise limits.engines and the memory limit of the container",
            }
            event = Event("engines_not_watched", fields, is_bad=True)
            self._events.record(event, self._clock.wall(), self.target.name)
        self._not_watched = number

    def _observe(self, name: EngineName, sample: Sample, polled: Polled) -> bool:
        """Take an engine's sample; return whether its counters were reset."""
        engine = self._engines.get(name) or self._meet(name, polled)
        engine.history.late_steps = polled.reading.front_end == "rust"
        events = engine.observe(
            sample, polled.moment, polled.wall, polled.interval, self._config.poll.histogram_interval
        )
        for event in events:
            self._tell(event, name, polled.wall)
        return any(event.name == "engine_reset" for event in events)

    def _meet(self, name: EngineName, polled: Polled) -> EngineMonitor:
        own_phase = self._phase(f"judgement of {name} at {self.target.url}")
        engine = EngineMonitor(self._config.windows, self._assumptions(), own_phase)
        learned = self._baselines.known(self._key(name))
        if learned is not None:
            engine.remember(learned)
        self._engines[name] = engine
        if not self._churn.is_churning(polled.moment):
            self._tell(Event("engine_found", {"kind": polled.reading.engine_kind}), name, polled.wall)
        return engine

    def _tell_gone(self) -> None:
        """Tell which engines were not seen for too long: somebody should look where the target is up.

        Of a target that is down its own event says so, of a crowd that of the engines that are forgotten.
        """
        now, is_up = self._clock.monotonic(), bool(self._record.up)
        if self._churn.is_churning(now):
            return
        for labels, engine in self._seen_last().items():
            for event in engine.gone(now, is_bad=is_up):
                self._events.record(event, self._clock.wall(), self.target.name, labels)

    def _tell(self, event: Event, name: EngineName, wall: float) -> None:
        self._events.record(event, wall, self.target.name, self._shown_name(name))

    def _named(self, name: EngineName) -> dict[str, str]:
        """Return the labels that name an engine in the log."""
        model_name, engine = self._shown_name(name)
        return {"target": self.target.name, "model_name": model_name, "engine": engine}

    def _key(self, name: EngineName) -> Key:
        return Key(self.target.name, name.model_name, name.engine)

    def _forget(self, now: float) -> list[Event]:
        """Forget engines that are long gone, and the longest gone where a server keeps inventing new ones."""
        by_age = sorted(self._engines, key=lambda name: self._engines[name].history.last_seen)
        surplus = self._admission.surplus(by_age)
        for place, name in enumerate(by_age):
            if place < surplus or now - self._engines[name].history.last_seen > FORGOTTEN_AFTER:
                del self._engines[name]
        return self._churn.forget(surplus, now, len(self._engines))


def _settings(config: Config) -> tuple[object, ...]:
    """Return what a change of the configuration may change for a target."""
    return config.poll, config.windows, config.cost, config.reference, config.policy
