"""The targets that are watched: as others are found, new ones join and old ones leave."""

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
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.core.token_bucket import TokenBucket
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.engine_monitor import EVALUATED_EVERY, EngineSnapshot
from spec_decode_exporter.monitor.event_budget import EventBudget
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.scrape.http.resolver import CONFIGURED, THREADS_OF_A_LIST, Resolver
from spec_decode_exporter.scrape.poll.poll_budget import PollBudget

_log = structlog.get_logger()

EVALUATED_AGAIN = 200
"""The engines of so many targets are judged by their newest poll when somebody asks.

Of more, what was judged when it was its turn is good enough, ``JUDGED_EVERY`` seconds ago at most: to judge a
thousand anew takes more than a second.
"""

_MOST_LINES: Final = 60
_LINE_EVERY: Final = 60.0
"""Lines of the log about changes of the targets at once, and the seconds after which there may be another."""
_EVENTS_OF_AN_ENGINE: Final = 4
_LIST_EVENT_EVERY: Final = 1.0
"""Events of the targets of one list: at once for each engine that is watched, then seconds for one more."""

Key = tuple[str, str]
T = TypeVar("T")


class Fleet:
    """A watch over each of the targets, with a task that polls it."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        baselines: RememberedEngines,
        events: EventLog,
        errors: InternalErrors | None = None,
    ) -> None:
        self._errors = errors or InternalErrors(clock.monotonic)
        self.config = config
        """By which targets are watched that are followed from now on."""
        self._clock = clock
        self._baselines = baselines
        self._events = events
        self._watches: dict[Key, TargetMonitor] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._found: Sequence[Target] = ()
        self._changes = asyncio.Lock()
        self._default_limit = engines_that_fit(container_memory())
        self._capacity = Capacity(config.limits.engines or self._default_limit)
        self._budget = PollBudget(clock, self._capacity.most)
        self.not_watched = 0
        """The number of targets that were found and are not watched, since the limit is reached."""
        self._background = Background()
        self._lists: dict[str, _Shared] = {}
        self._lines = TokenBucket(_MOST_LINES, _LINE_EVERY, clock.monotonic)
        self._unlogged = Counter[str]()

    def __iter__(self) -> Iterator[TargetMonitor]:
        return iter(list(self._watches.values()))

    def engines(self) -> Iterator[tuple[Mapping[str, str], EngineSnapshot]]:
        """Yield the labels and findings of each engine, as they are when it is its turn."""
        most_behind = EVALUATED_EVERY if len(self._watches) > EVALUATED_AGAIN else 0.0
        for watch in self:
            yield from watch.findings(self._clock.monotonic(), most_behind)

    def follow(self, targets: Sequence[Target]) -> None:
        """Watch just these targets, as soon as earlier changes are done.

        Beyond ``limits.engines``, those of the configuration come first. Lists, DNS names and namespaces
        share the rest evenly, so that a long list takes no place from another one.
        """
        self._capacity.most = self.config.limits.engines or self._default_limit
        watched = _within(targets, self._capacity.most)
        self._budget.engines, self._budget.targets = self._capacity.most, len(watched)
        self._note_not_watched(len(targets) - len(watched))
        self._found = watched
        self._background.start(self._follow(watched))

    def remember(self) -> None:
        """Hand what the engines have learnt to the baselines."""
        for watch in self:
            self._errors.attempt("saving", watch.item, watch.remember)

    def each(self, part: str, work: Callable[[TargetMonitor], T]) -> Iterator[T]:
        """Yield the result of ``work`` for each target; one for which it raises is omitted in that part."""
        return self._errors.each(part, self, lambda watch: watch.item, work)

    async def stop(self) -> None:
        """Poll no longer; connections stay until ``close``."""
        await self._background.cancel()
        async with self._changes:
            await cancel(self._tasks.values())

    async def close(self) -> None:
        """Close every connection."""
        for watch in self:
            await self._errors.attempt_async("closing", watch.close, watch.item)

    async def _follow(self, targets: Sequence[Target]) -> None:
        """Watch just these targets: those that are watched already go on with their windows."""
        async with self._changes:
            if targets is not self._found:
                return  # a later list is on its way
            wanted = {target.key: target for target in targets}
            added, gone = wanted.keys() - self._watches.keys(), self._watches.keys() - wanted.keys()
            for key in gone:
                await self._leave(key)
            for key, target in wanted.items():
                await self._errors.attempt_async("target", partial(self._watch, key, target), _item(target))
                await asyncio.sleep(0)  # a list may bring ten thousand targets at once
            self._note_changed(len(wanted), len(added), len(gone))

    async def _leave(self, key: Key) -> None:
        await cancel([self._tasks.pop(key, None)])
        watch = self._watches.pop(key)
        self._capacity.release(key)
        self._errors.attempt("saving", watch.item, watch.remember)
        await self._errors.attempt_async("closing", watch.close, watch.item)

    def _note_changed(self, targets: int, added: int, removed: int) -> None:
        self._unlogged.update(added=added, removed=removed)
        if (added or removed) and self._lines.take():
            _log.info("targets_changed", targets=targets, **self._unlogged)
            self._unlogged.clear()

    def _note_not_watched(self, number: int) -> None:
        if number and not self.not_watched:
            _log.warning(
                "targets_not_watched",
                targets=number,
                limit=self._capacity.most,
                remedy="raise limits.engines and the memory limit of the container, or use shards",
            )
        self.not_watched = number

    async def _watch(self, key: Key, target: Target) -> None:
        """Watch a target; go on with the one that is watched already, as it is or with other settings."""
        watch = self._watches.get(key)
        if watch is None:
            watch = self._new_watch(target)
            self._watches[key] = watch
        elif key in self._tasks and watch.fits(target, self.config):
            return
        else:
            await cancel([self._tasks.pop(key, None)])
            await watch.change(target, self.config)
        self._tasks[key] = spawn(keep_running("polling", watch.run, self._errors, self._clock, watch.item))

    def _new_watch(self, target: Target) -> TargetMonitor:
        shared = self._shared(target)
        return TargetMonitor(
            target,
            self.config,
            self._clock,
            self._baselines,
            shared.events,
            capacity=self._capacity,
            budget=self._budget,
            errors=self._errors,
            resolver=shared.resolver,
        )

    def _shared(self, target: Target) -> _Shared:
        """Return the event budget and the resolver of the target's list."""
        if not target.found_by:
            return _Shared(self._events, CONFIGURED)
        if target.found_by not in self._lists:
            # A list may name others at every look, each of which begins with a budget of its own.
            budget = EventBudget(
                self._events,
                self._clock.monotonic,
                burst=_EVENTS_OF_AN_ENGINE * self._capacity.most,
                every=_LIST_EVENT_EVERY,
                discovery=target.discovery,
            )
            self._lists[target.found_by] = _Shared(budget, Resolver(THREADS_OF_A_LIST))
        return self._lists[target.found_by]


@dataclass(frozen=True, slots=True)
class _Shared:
    """Event budget and resolver of one list: its targets take nothing from the targets of other lists."""

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
    taken = shared_evenly(by_way, places - len(configured)) if places > len(configured) else {}
    keys = {target.key for chosen in (configured, *taken.values()) for target in chosen}
    return [target for target in targets if target.key in keys]


def _item(target: Target) -> Mapping[str, str]:
    return {"target": target.name}
