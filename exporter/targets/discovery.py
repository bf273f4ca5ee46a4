"""All ways of finding servers together: one list of targets, kept up to date."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import chain, count
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from exporter.config.kubernetes_settings import POD_LABELS
from exporter.config.labels import MOST_LABEL_VALUE
from exporter.config.url import address, identity
from exporter.scrape.slices import Pausing, finish, giving_way
from exporter.targets.dns import DnsNameDiscovery
from exporter.targets.file_sd import FileDiscovery
from exporter.targets.http_sd import HttpListDiscovery
from exporter.targets.kubernetes import PodDiscovery
from exporter.targets.labels import FleetLabels
from exporter.targets.protocol import Discovery, DiscoveryError
from exporter.targets.shard import shard_of
from exporter.targets.static import static_targets
from exporter.targets.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from exporter.clock import Clock
    from exporter.config.schema import Config

KINDS: Final = ("static", "file", "http", "dns", "kubernetes")
"""The ways of finding a target; where two find the same one, the earlier counts."""

_SLICE: Final = 64
"""Targets from one pause to the next: about a millisecond of work."""
_LONGEST_NUMBER: Final = 8
"""Characters of ``#`` and the number behind a path that several targets have."""

_NOTHING_KNOWN: Final[Mapping[str, Sequence[Target]]] = MappingProxyType({})

_log = structlog.get_logger(__name__)


def discoveries(config: Config) -> list[Discovery]:
    """Return what is to be asked for targets, in the order in which it counts."""
    discovery = config.discovery
    return [
        *(FileDiscovery(pattern, discovery.scrape) for pattern in discovery.files),
        *(HttpListDiscovery(settings, discovery.scrape) for settings in discovery.http),
        *(
            DnsNameDiscovery(name, settings, discovery.scrape)
            for settings in discovery.dns
            for name in settings.names
        ),
        *(
            PodDiscovery(namespace, settings, discovery.scrape)
            for settings in discovery.kubernetes
            for namespace in settings.watched
        ),
    ]


def merge(results: Iterable[Sequence[Target]]) -> tuple[Target, ...]:
    """Return each page once and each name once.

    A page that is there twice keeps its first name and settings; its labels are put together, the first
    value counts. A second page of the same name is called by its ``host:port``, then by its path too, then
    numbered.
    """
    return finish(_merging(results))


def _merging(results: Iterable[Sequence[Target]]) -> Pausing[tuple[Target, ...]]:
    pages: dict[tuple[str, ...], Target] = {}
    for number, target in enumerate(chain.from_iterable(results)):
        page = identity(target.url)
        pages[page] = _with_labels(pages[page], target) if page in pages else target
        if number % _SLICE == _SLICE - 1:
            yield
    named: list[Target] = []
    for target in _named_apart(pages.values()):
        named.append(target)
        if len(named) % _SLICE == 0:
            yield
    return tuple(named)


def _with_labels(first: Target, other: Target) -> Target:
    labels = {**dict(other.labels), **dict(first.labels)}
    return replace(
        first,
        labels=tuple(sorted(labels.items())),
        method_label=first.method_label or other.method_label,
        pod_arguments=first.pod_arguments or other.pod_arguments,
    )


def _named_apart(targets: Iterable[Target]) -> Iterator[Target]:
    taken: set[str] = set()
    # Where each path's numbers go on: from 2 each time, many pages of one path would take their square.
    numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(2))
    for target in targets:
        name = next(name for name in _names(target, numbers) if name not in taken)
        taken.add(name)
        yield target if name == target.name else replace(target, name=name)


def _names(target: Target, numbers: Mapping[str, Iterator[int]]) -> Iterator[str]:
    """Yield what a target may be called, best first, without end."""
    host = address(target.url)
    path = (host + urlsplit(target.url).path)[: MOST_LABEL_VALUE - _LONGEST_NUMBER]
    yield from (target.name, host, path)
    yield from (f"{path}#{number}" for number in numbers[path])


class Discoverer:
    """Keeps the list of targets up to date, and tells of every change."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        on_change: Callable[[Sequence[Target]], None],
        known: Mapping[str, Sequence[Target]] = _NOTHING_KNOWN,
    ) -> None:
        """Call ``on_change`` with the whole list at first and whenever it is another.

        ``known`` is what an earlier discoverer has ``found``: with it, a reload loses no target meanwhile.
        """
        self._clock = clock
        self._on_change = on_change
        self._shard = config.discovery.shard
        self._static = static_targets(config)
        self._ways = discoveries(config)
        self._labels = FleetLabels(self._static, _configured_names(config))
        self._publishing = asyncio.Lock()
        self._failures: dict[str, str] = {}
        self._targets: tuple[Target, ...] | None = None
        self.found: dict[str, Sequence[Target]] = {way.key: known.get(way.key, ()) for way in self._ways}
        """By the key of each way of discovery, what it found last."""

    async def run(self) -> None:
        """Tell of what is known at once, then look again and again until cancelled."""
        await self._publish()
        async with asyncio.TaskGroup() as group:
            for way in self._ways:
                group.create_task(self._follow(way))

    def counts(self) -> dict[str, int]:
        """Return how many targets were found in each way, 0 for those that found none."""
        found = Counter(target.discovery for target in self._targets or ())
        return {kind: found[kind] for kind in KINDS}

    async def _follow(self, way: Discovery) -> None:
        while True:
            targets = await self._look(way)
            if targets is not None and tuple(targets) != self.found[way.key]:
                self.found[way.key] = tuple(targets)
                await self._publish()
            await self._clock.sleep_until(self._clock.monotonic() + way.refresh)

    async def _look(self, way: Discovery) -> Sequence[Target] | None:
        """Return what ``way`` finds now; None if that is not known."""
        try:
            targets = await way.targets()
        except DiscoveryError as error:
            self._failed(way, str(error))
            return error.targets
        except Exception as error:  # noqa: BLE001  one way's fault must not end the others
            self._failed(way, f"unexpected: {type(error).__name__}")
            return None
        if self._failures.pop(way.key, None) is not None:
            _log.info("discovery_recovered", discovery=way.name)
        return targets

    def _failed(self, way: Discovery, reason: str) -> None:
        """Log a failure when it begins or turns into another, not at every look."""
        if self._failures.get(way.key) != reason:
            self._failures[way.key] = reason
            _log.warning("discovery_failed", discovery=way.name, reason=reason)

    async def _publish(self) -> None:
        """Call ``on_change`` if the targets are others than before; polls go on between the slices."""
        async with self._publishing:
            targets = await giving_way(self._ours())
            if targets != self._targets:
                self._targets = targets
                self._on_change(targets)

    def _ours(self) -> Pausing[tuple[Target, ...]]:
        """Return the targets of this shard, with the labels that they keep."""
        merged = yield from _merging([self._static, *self.found.values()])
        limited = yield from self._labels.limited(merged)
        found: list[Target] = []
        for number, target in enumerate(limited):
            if shard_of(target, self._shard.count) == self._shard.index:
                found.append(target)
            if number % _SLICE == _SLICE - 1:
                yield
        return tuple(found)


def _configured_names(config: Config) -> Iterator[str]:
    """Yield the names of the labels that pods have by the configuration."""
    for settings in config.discovery.kubernetes:
        yield from (*sorted(POD_LABELS), *settings.labels, *settings.annotations)
