"""All ways of finding servers together: one list of targets, kept up to date."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import structlog

from spec_decode_exporter.config.kubernetes_settings import POD_LABELS
from spec_decode_exporter.config.labels import MOST_LABEL_VALUE, MOST_LABELS
from spec_decode_exporter.config.url import address, identity
from spec_decode_exporter.core.cooperative_yield import Pausing, cooperatively, finish
from spec_decode_exporter.core.token_bucket import TokenBucket
from spec_decode_exporter.discovery.dns_sd import DnsNameDiscovery
from spec_decode_exporter.discovery.file_sd import FileDiscovery
from spec_decode_exporter.discovery.http_sd import HttpListDiscovery
from spec_decode_exporter.discovery.kubernetes.pod_discovery import PodDiscovery
from spec_decode_exporter.discovery.label_limits import FleetLabels
from spec_decode_exporter.discovery.protocol import DiscoveryError, TargetDiscovery
from spec_decode_exporter.discovery.shard import shard_of
from spec_decode_exporter.discovery.static_targets import static_targets
from spec_decode_exporter.discovery.target import CONFIGURED, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spec_decode_exporter.config.schema import Config
    from spec_decode_exporter.core.clock import Clock

KINDS: Final = (CONFIGURED, "file", "http", "dns", "kubernetes")
"""The ways of finding a target; where two find the same one, the earlier counts."""

_SLICE: Final = 64
"""Targets from one pause to the next: about a millisecond of work."""
_MAX_NUMBER: Final = 8
"""Characters of ``#`` and the number behind a path that several targets have."""

_MAX_LINES: Final = 10
_LINE_INTERVAL: Final = 300.0
"""Log lines about the failures of one way at once, and the seconds after which there may be another."""
_MAX_JOINED: Final = MOST_LABELS + 1
"""Labels of one page from one result. The one beyond the limit has it logged that there are too many.

Without this limit, a list that repeats a page with other labels each time takes the square of its length.
"""

_Page: TypeAlias = tuple[str, str, str, str]
"""The identity of a page."""

_NOTHING_KNOWN: Final[Mapping[str, Sequence[Target]]] = MappingProxyType({})

_log = structlog.get_logger(__name__)


def discoveries(config: Config) -> list[TargetDiscovery]:
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
    pages: dict[_Page, Target] = {}
    for targets in results:
        # Each result by itself: the labels that one list repeats must not crowd out those of another.
        own = yield from _pages(targets, _MAX_JOINED)
        yield from _join(pages, own.items())
    named: list[Target] = []
    for target in _named_apart(pages.values()):
        named.append(target)
        if len(named) % _SLICE == 0:
            yield
    return tuple(named)


def _pages(targets: Sequence[Target], most_labels: int) -> Pausing[dict[_Page, Target]]:
    """Return the targets of one result, each page once with at most ``most_labels`` labels."""
    pages: dict[_Page, Target] = {}
    yield from _join(pages, ((identity(target.url), target) for target in targets), most_labels)
    return pages


def _join(
    pages: dict[_Page, Target], found: Iterable[tuple[_Page, Target]], most_labels: int | None = None
) -> Pausing[None]:
    """Add targets to ``pages``; of a page that is there already, only its further labels."""
    for number, (page, target) in enumerate(found):
        pages[page] = _with_labels(pages[page], target, most_labels) if page in pages else target
        if number % _SLICE == _SLICE - 1:
            yield


def _with_labels(first: Target, other: Target, most: int | None) -> Target:
    known = dict(first.labels)
    added = [pair for pair in other.labels if pair[0] not in known]
    if most is not None:
        del added[max(0, most - len(known)) :]
    return replace(
        first,
        labels=tuple(sorted((*first.labels, *added))) if added else first.labels,
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
    path = (host + urlsplit(target.url).path)[: MOST_LABEL_VALUE - _MAX_NUMBER]
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
        self._logged: defaultdict[str, str] = defaultdict(str)
        self._lines = {
            way.key: TokenBucket(_MAX_LINES, _LINE_INTERVAL, clock.monotonic) for way in self._ways
        }
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

    async def _follow(self, way: TargetDiscovery) -> None:
        while True:
            self._note(way, await self._look(way))
            await self._clock.sleep_until(self._clock.monotonic() + way.refresh)

    async def _look(self, way: TargetDiscovery) -> str:
        """Publish what ``way`` finds now, if it is known; return why it is not, or empty."""
        try:
            await self._found(way, await way.targets())
        except DiscoveryError as error:
            if error.targets is not None:
                await self._found(way, error.targets)
            return str(error)
        except Exception as error:  # noqa: BLE001  one way's fault must not end the others
            return f"unexpected: {type(error).__name__}"
        return ""

    async def _found(self, way: TargetDiscovery, targets: Sequence[Target]) -> None:
        if tuple(targets) != self.found[way.key]:
            await self._publish({way.key: tuple(targets)})

    def _note(self, way: TargetDiscovery, reason: str) -> None:
        """Log a failure when it begins or turns into another, and its end; not at every look.

        A server may fail in other words each time: beyond the limit of lines, the next look tries again.
        """
        if reason == self._logged[way.key] or not self._lines[way.key].take():
            return
        self._logged[way.key] = reason
        if reason:
            _log.warning("discovery_failed", discovery=way.name, reason=reason)
        else:
            _log.info("discovery_recovered", discovery=way.name)

    async def _publish(self, changed: Mapping[str, Sequence[Target]] = _NOTHING_KNOWN) -> None:
        """Call ``on_change`` if the targets are others than before; polls go on between the slices."""
        async with self._publishing:
            found = {**self.found, **changed}
            targets = await cooperatively(self._ours(found.values()))
            # Only now: a list that cannot be put together with the others must not stay among them.
            self.found = found
            if targets != self._targets:
                self._targets = targets
                self._on_change(targets)

    def _ours(self, lists: Iterable[Sequence[Target]]) -> Pausing[tuple[Target, ...]]:
        """Return the targets of this shard, with the labels that they keep."""
        merged = yield from _merging([self._static, *lists])
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
