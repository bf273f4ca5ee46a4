"""Fleet of target monitors: discovery adds and removes targets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import structlog

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.background_tasks import Background, cancel, keep_running, spawn
from spec_decode_exporter.core.capacity import Capacity, container_memory, engines_that_fit, shared_evenly
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.cooperative_yield import yield_to_event_loop
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.core.token_bucket import TokenBucket
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.monitor.event_budget import EventBudget
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.requests.request_types import RequestTypes
from spec_decode_exporter.scrape.http.resolver import CONFIG_RESOLVER, THREADS_PER_LIST, Resolver
from spec_decode_exporter.scrape.poll.poll_budget import PollBudget
from spec_decode_exporter.scrape.poll.poll_scheduler import PollScheduler
from spec_decode_exporter.scrape.poll.raw_poll import Recorded

_log = structlog.get_logger()

_MAX_LINES: Final = 60
_LINE_EVERY: Final = 60.0
"""Log lines about changes of targets: burst, and seconds for one more."""
_EVENTS_PER_ENGINE: Final = 4
_LIST_EVENT_EVERY: Final = 1.0
"""Events of the targets of one list: burst per engine, and seconds for one more."""

TargetKey = tuple[str, str]
T = TypeVar("T")


class Fleet:
    """Monitors of all targets, each with a task that polls it."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        remembered: RememberedEngines,
        events: EventLog,
        errors: InternalErrors | None = None,
        *,
        spread: bool = True,
        recorded: Recorded | None = None,
    ) -> None:
        """Monitor no target yet; see ``TargetMonitor`` for ``spread`` and ``recorded``."""
        self._spread, self._recorded = spread, recorded
        self._errors = errors or InternalErrors(clock.monotonic)
        self.config = config
        """Configuration of the targets that are followed from now on."""
        self.request_types = RequestTypes()
        """Sums of all requests by type, which the drop detectors read."""
        self._clock = clock
        self._remembered = remembered
        self._events = events
        self._monitors: dict[TargetKey, TargetMonitor] = {}
        self._tasks: dict[TargetKey, asyncio.Task[None]] = {}
        self._wanted: Sequence[Target] = ()
        self._changes = asyncio.Lock()
        self._default_limit = engines_that_fit(container_memory())
        self._capacity = Capacity(config.limits.engines or self._default_limit)
        self._budget = PollBudget(clock, self._capacity.limit)
        self._scheduler = PollScheduler(clock)
        self.not_monitored = 0
        """Discovered targets beyond the limit."""
        self._background = Background()
        self._lists: dict[str, _Shared] = {}
        self._lines = TokenBucket(_MAX_LINES, _LINE_EVERY, clock.monotonic)
        self._unlogged = Counter[str]()

    def __iter__(self) -> Iterator[TargetMonitor]:
        return iter(list(self._monitors.values()))

    def engines(self) -> Iterator[tuple[Mapping[str, str], EngineSnapshot]]:
        """Yield the labels and the snapshot of each engine."""
        for monitor in self:
            yield from monitor.snapshots(self._clock.monotonic())

    def follow(self, targets: Sequence[Target]) -> None:
        """Monitor exactly these targets, once earlier changes are complete.

        Beyond ``limits.engines``, configured targets come first. Lists, DNS names and namespaces share the
        rest evenly, so that a long list takes no place from another one.
        """
        self._capacity.limit = self.config.limits.engines or self._default_limit
        admitted = _within(targets, self._capacity.limit)
        self._budget.engines, self._budget.targets = self._capacity.limit, len(admitted)
        self._note_not_monitored(len(targets) - len(admitted))
        self._wanted = admitted
        self._background.start(self._follow(admitted))

    def watch(self, targets: Sequence[Target]) -> None:
        """Monitor these targets without polling them: an observation polls them, or reads a recording."""
        self._budget.targets = len(targets)
        self._monitors = {target.key: self._new_monitor(target) for target in targets}

    def remember(self) -> None:
        """Hand over the learned state of the engines for persistence."""
        for monitor in self:
            self._errors.attempt("saving", monitor.item, monitor.remember)

    def each(self, part: str, work: Callable[[TargetMonitor], T]) -> Iterator[T]:
        """Yield the result of ``work`` for each target; omit a target for which it raises."""
        return self._errors.each(part, self, lambda monitor: monitor.item, work)

    async def stop(self) -> None:
        """Stop polling; connections stay open until ``close``."""
        await self._background.cancel()
        async with self._changes:
            await cancel(self._tasks.values())

    async def close(self) -> None:
        """Close every connection."""
        for monitor in self:
            await self._errors.attempt_async("closing", monitor.close, monitor.item)

    async def _follow(self, targets: Sequence[Target]) -> None:
        """Monitor exactly these targets; monitored ones keep their windows."""
        async with self._changes:
            if targets is not self._wanted:
                return  # a later list replaces this one
            wanted = {target.key: target for target in targets}
            added, gone = wanted.keys() - self._monitors.keys(), self._monitors.keys() - wanted.keys()
            for key in gone:
                await self._leave(key)
            for key, target in wanted.items():
                await self._errors.attempt_async(
                    "target", partial(self._follow_one, key, target), _item(target)
                )
                await yield_to_event_loop()  # a list may bring ten thousand targets at once
            self._note_changed(len(wanted), len(added), len(gone))

    async def _leave(self, key: TargetKey) -> None:
        await cancel([self._tasks.pop(key, None)])
        monitor = self._monitors.pop(key)
        self._capacity.release(key)
        self._errors.attempt("saving", monitor.item, monitor.remember)
        await self._errors.attempt_async("closing", monitor.close, monitor.item)

    def _note_changed(self, targets: int, added: int, removed: int) -> None:
        self._unlogged.update(added=added, removed=removed)
        if (added or removed) and self._lines.take():
            _log.info("targets_changed", targets=targets, **self._unlogged)
            self._unlogged.clear()

    def _note_not_monitored(self, number: int) -> None:
        if number and not self.not_monitored:
            _log.warning(
                "targets_not_monitored",
                targets=number,
                limit=self._capacity.limit,
                remedy="raise limits.engines and the memory limit of the container, or use shards",
            )
        self.not_monitored = number

    async def _follow_one(self, key: TargetKey, target: Target) -> None:
        """Monitor a target; keep a monitor that exists, and change its settings if they differ."""
        monitor = self._monitors.get(key)
        if monitor is None:
            monitor = self._new_monitor(target)
            self._monitors[key] = monitor
        elif key in self._tasks and monitor.fits(target, self.config):
            return
        else:
            await cancel([self._tasks.pop(key, None)])
            await monitor.change(target, self.config)
        self._tasks[key] = spawn(
            keep_running("polling", monitor.run, self._errors, self._clock, monitor.item)
        )

    def _new_monitor(self, target: Target) -> TargetMonitor:
        shared = self._shared(target)
        return TargetMonitor(
            target,
            self.config,
            self._clock,
            self._remembered,
            shared.events,
            capacity=self._capacity,
            budget=self._budget,
            scheduler=self._scheduler,
            errors=self._errors,
            resolver=shared.resolver,
            types=self.request_types,
            spread=self._spread,
            recorded=self._recorded,
        )

    def _shared(self, target: Target) -> _Shared:
        """Return the event budget and the resolver of the target's list."""
        if not target.found_by:
            return _Shared(self._events, CONFIG_RESOLVER)
        if target.found_by not in self._lists:
            # A list may have other targets at every refresh; each would begin with a full budget.
            budget = EventBudget(
                self._events,
                self._clock.monotonic,
                burst=_EVENTS_PER_ENGINE * self._capacity.limit,
                every=_LIST_EVENT_EVERY,
                discovery=target.discovery,
            )
            self._lists[target.found_by] = _Shared(budget, Resolver(THREADS_PER_LIST))
        return self._lists[target.found_by]


@dataclass(frozen=True, slots=True)
class _Shared:
    """Event budget and resolver of one list; other lists have their own."""

    events: EventLog | EventBudget
    resolver: Resolver


def _within(targets: Sequence[Target], places: int) -> Sequence[Target]:
    """Return at most ``places`` targets, in their order: configured ones first, then evenly by list."""
    if len(targets) <= places:
        return targets
    by_way: dict[str, list[Target]] = {}
    for target in targets:
        by_way.setdefault(target.found_by, []).append(target)
    configured = by_way.pop("", [])[:places]
    shared = shared_evenly(by_way, places - len(configured)) if places > len(configured) else {}
    keys = {target.key for chosen in (configured, *shared.values()) for target in chosen}
    return [target for target in targets if target.key in keys]


def _item(target: Target) -> Mapping[str, str]:
    return {"target": target.name}
