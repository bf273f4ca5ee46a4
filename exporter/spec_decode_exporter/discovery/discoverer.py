"""Run all discoveries and keep one list of targets up to date: each page once, each name once."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import md5
from itertools import chain, count
from types import MappingProxyType
from typing import Final

import structlog

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.target_settings import POD_LABELS, Discovery
from spec_decode_exporter.config.types import MAX_LABEL_VALUE, MAX_LABELS
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.recurring import TokenBucket
from spec_decode_exporter.core.tasks import TARGET_LISTS
from spec_decode_exporter.core.urls import Url, address
from spec_decode_exporter.discovery import lists
from spec_decode_exporter.discovery.lists import TargetDiscovery
from spec_decode_exporter.discovery.target import (
    CONFIGURED,
    DiscoveryError,
    LabelFilter,
    Target,
    static_targets,
)

KINDS: Final = (CONFIGURED, "file", "http", "dns", "kubernetes")  # kinds of discovery, in order of precedence
MAX_NAME_CHARACTERS: Final = 1_024  # of all label names that are not configured: every series has them all
_FEW: Final = 200  # targets that are merged on the event loop: 2 ms; more are merged in a thread
_LINES: Final = 10, 300.0  # burst of log lines about failures of a discovery, and seconds until one more
_NAMES: Final = f"{MAX_LABELS} label names of {MAX_NAME_CHARACTERS:,} characters of all targets together"

_log = structlog.get_logger(__name__)


def discoveries(discovery: Discovery) -> Iterator[TargetDiscovery]:
    """Yield the configured discoveries in order of precedence."""
    scrape = discovery.scrape
    yield from (lists.FileDiscovery(pattern, scrape) for pattern in discovery.files)
    yield from (lists.HttpListDiscovery(settings, scrape) for settings in discovery.http)
    for names in discovery.dns:
        yield from (lists.DnsNameDiscovery(name, names, scrape) for name in names.names)
    for pods in discovery.kubernetes:
        from spec_decode_exporter.discovery.pods import PodDiscovery  # in memory once it is configured

        yield from (PodDiscovery(namespace, pods, scrape) for namespace in pods.watched)


class Discoverer:
    """Keep the list of targets up to date, and call back on every change."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        on_change: Callable[[Sequence[Target]], None],
        known: Mapping[str, Sequence[Target]] = MappingProxyType({}),
    ) -> None:
        """Call ``on_change`` at each change; ``known`` is the list ``found`` of an earlier discoverer."""
        self._clock, self._on_change = clock, on_change
        self._shard, self._static = config.discovery.shard, static_targets(config)
        self._discoveries = list(discoveries(config.discovery))
        self._filter = LabelFilter("all")
        pods = ([*sorted(POD_LABELS), *pods.labels] for pods in config.discovery.kubernetes)
        configured = chain((target.labels for target in config.targets), pods)
        self._labels = FleetLabels(chain(*configured), self._filter)
        self._publishing = asyncio.Lock()
        self._reasons: dict[str, str | None] = {}
        self._lines = {way.key: TokenBucket(*_LINES, clock.monotonic) for way in self._discoveries}
        self._targets: tuple[Target, ...] | None = None
        self.found = {way.key: known.get(way.key, ()) for way in self._discoveries}
        """Last result of each discovery, by its key."""

    async def run(self) -> None:
        """Publish the known targets, then refresh all discoveries until cancelled."""
        await self._publish({})
        async with asyncio.TaskGroup() as group:
            for discovery in self._discoveries:
                group.create_task(self._follow(discovery))

    def counts(self) -> dict[str, int]:
        """Return the number of targets of each kind of discovery, zeros included."""
        kinds = Counter(target.discovery for target in self._targets or ())
        return {kind: kinds[kind] for kind in KINDS}

    async def _follow(self, discovery: TargetDiscovery) -> None:
        while True:
            reason = await self._refresh(discovery)
            # A server may fail with another text each time: beyond the lines, the next refresh tries again.
            if reason != self._reasons.get(discovery.key) and self._lines[discovery.key].take():
                self._reasons[discovery.key] = reason
                if reason is None:
                    _log.info("discovery_recovered", discovery=discovery.name)
                else:
                    _log.warning("discovery_failed", discovery=discovery.name, reason=reason)
            await self._clock.sleep_until(self._clock.monotonic() + discovery.refresh)

    async def _refresh(self, discovery: TargetDiscovery) -> str | None:
        """Refresh a discovery and publish its targets; return the reason of a failure."""
        reason, targets = None, None
        try:
            try:
                targets = await discovery.targets()
            except DiscoveryError as error:
                reason, targets = str(error), error.targets
            if targets is not None and tuple(targets) != self.found[discovery.key]:
                await self._publish({discovery.key: tuple(targets)})
        except Exception as error:  # noqa: BLE001  an error in one discovery must not end the others
            return f"unexpected: {type(error).__name__}"
        return reason

    async def _publish(self, changed: Mapping[str, Sequence[Target]]) -> None:
        """Call ``on_change`` if the targets changed."""
        async with self._publishing:
            found = {**self.found, **changed}
            is_few = sum(map(len, found.values())) <= _FEW
            targets = self._of_shard(found) if is_few else await TARGET_LISTS.run(self._of_shard, found)
            self.found = found  # after the merge: the last list that can be merged stays
            if targets != self._targets:
                self._targets = targets
                self._on_change(targets)

    def _of_shard(self, found: Mapping[str, Sequence[Target]]) -> tuple[Target, ...]:
        """Return the targets of this shard, by the address alone: two exporters may see other names."""
        targets = self._labels.limited(merge([self._static, *found.values()], self._filter))
        index, count = self._shard.index, self._shard.count
        return tuple(target for target in targets if hash_modulus(address(target.url), count) == index)


def merge(found: Iterable[Sequence[Target]], labels: LabelFilter) -> list[Target]:
    """Return each page once and each name once.

    A repeated page keeps its first name and settings. Its labels are joined; the first value of each counts.
    A second page of the same name gets its ``host:port`` as name, then its path too, then a number.
    """
    pages: dict[Url, Target] = {}
    for target in chain.from_iterable(found):
        page = Url.of(target.url)
        pages[page] = _joined(pages[page], target, labels) if page in pages else target
    return list(_with_unique_names(pages.values()))


def _joined(first: Target, other: Target, labels: LabelFilter) -> Target:
    known = dict(first.labels)
    added = labels.fitting([pair for pair in other.labels if pair[0] not in known], beside=first.labels)
    return replace(
        first,
        labels=tuple(sorted((*first.labels, *added))) if added else first.labels,
        method_label=first.method_label or other.method_label,
        pod_arguments=first.pod_arguments or other.pod_arguments,
    )


def _with_unique_names(targets: Iterable[Target]) -> Iterator[Target]:
    taken: set[str] = set()
    numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(2))  # by path, in linear time
    for target in targets:
        name = target.name
        if name in taken:
            url = Url.of(target.url)
            path = (url.address + url.target.partition("?")[0])[: MAX_LABEL_VALUE - len("#1234567")]
            candidates = chain((url.address, path), (f"{path}#{number}" for number in numbers[path]))
            name = next(name for name in candidates if name not in taken)
        taken.add(name)
        yield target if name == target.name else replace(target, name=name)


def hash_modulus(text: str, modulus: int) -> int:
    """Return the result of Prometheus' ``action: hashmod`` (``model/relabel/relabel.go``)."""
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:]) % modulus


class FleetLabels:
    """Limit the label names of all targets; a new name displaces neither a configured one nor one in use."""

    def __init__(self, configured: Iterable[str], labels: LabelFilter) -> None:
        self._configured = self._names = dict.fromkeys(configured)
        self._labels = labels

    def limited(self, targets: Sequence[Target]) -> Iterator[Target]:
        """Yield the targets with the labels whose names are admitted."""
        # By identity: the targets of a group share one tuple of labels.
        distinct = {id(target.labels): target.labels for target in targets}
        self._names = self._admitted(dict.fromkeys(name for own in distinct.values() for name, _ in own))
        kept = {key: tuple(one for one in own if one[0] in self._names) for key, own in distinct.items()}
        for target in targets:
            labels = kept[id(target.labels)]
            yield target if labels == target.labels else replace(target, labels=labels)

    def _admitted(self, present: Mapping[str, None]) -> dict[str, None]:
        """Return the configured names, then those in use, then new ones; log the first that is beyond."""
        names, left = dict(self._configured), MAX_NAME_CHARACTERS
        in_use = (name for name in self._names if name in present)
        for name in (name for name in dict.fromkeys((*in_use, *present)) if name not in self._configured):
            left -= len(name)
            if left < 0 or len(names) >= MAX_LABELS:
                self._labels.drop(name, f"is beyond the {_NAMES}; use fewer or shorter names", once="names")
                break
            names[name] = None
        return names
