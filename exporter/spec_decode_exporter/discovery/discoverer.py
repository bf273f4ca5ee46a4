"""Run all discoveries and keep one list of targets up to date."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import structlog

from spec_decode_exporter.config.kubernetes_settings import POD_LABELS
from spec_decode_exporter.core.cooperative_yield import Pausing, cooperatively
from spec_decode_exporter.core.recurring import OnceUntilRecovered, TokenBucket
from spec_decode_exporter.discovery.dns_sd import DnsNameDiscovery
from spec_decode_exporter.discovery.file_sd import FileDiscovery
from spec_decode_exporter.discovery.http_sd import HttpListDiscovery
from spec_decode_exporter.discovery.label_limits import FleetLabels
from spec_decode_exporter.discovery.target import CONFIGURED, Target, static_targets
from spec_decode_exporter.discovery.target_discovery import DiscoveryError, TargetDiscovery
from spec_decode_exporter.discovery.target_merge import SLICE, merging, shard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery
    from spec_decode_exporter.config.schema import Config
    from spec_decode_exporter.config.target_settings import Scrape
    from spec_decode_exporter.core.clock import Clock

KINDS: Final = (CONFIGURED, "file", "http", "dns", "kubernetes")
"""Kinds of discovery, in order of precedence."""

_MAX_LINES: Final = 10
"""Burst of log lines about the failures of one discovery."""
_LINE_INTERVAL: Final = 300.0
"""Seconds until one more log line after the burst."""

_NO_RESULTS: Final[Mapping[str, Sequence[Target]]] = MappingProxyType({})

_log = structlog.get_logger(__name__)


def discoveries(config: Config) -> list[TargetDiscovery]:
    """Return the configured discoveries in order of precedence."""
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
            pod_discovery(namespace, settings, discovery.scrape)
            for settings in discovery.kubernetes
            for namespace in settings.watched
        ),
    ]


def pod_discovery(namespace: str | None, settings: KubernetesDiscovery, scrape: Scrape) -> TargetDiscovery:
    """Return the discovery of pods; its code is not in memory before it is configured."""
    from spec_decode_exporter.discovery.kubernetes.pod_discovery import PodDiscovery

    return PodDiscovery(namespace, settings, scrape)


class Discoverer:
    """Keep the list of targets up to date, and call back on every change."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        on_change: Callable[[Sequence[Target]], None],
        known: Mapping[str, Sequence[Target]] = _NO_RESULTS,
    ) -> None:
        """Call ``on_change`` with the whole list at the start and after each change.

        ``known`` is the attribute ``found`` of an earlier discoverer: with it, a reload loses no target.
        """
        self._clock = clock
        self._on_change = on_change
        self._shard = config.discovery.shard
        self._static = static_targets(config)
        self._discoveries = discoveries(config)
        self._labels = FleetLabels(self._static, _configured_names(config))
        self._publishing = asyncio.Lock()
        self._failures: defaultdict[str, OnceUntilRecovered] = defaultdict(OnceUntilRecovered)
        self._lines = {
            discovery.key: TokenBucket(_MAX_LINES, _LINE_INTERVAL, clock.monotonic)
            for discovery in self._discoveries
        }
        self._targets: tuple[Target, ...] | None = None
        self.found: dict[str, Sequence[Target]] = {
            discovery.key: known.get(discovery.key, ()) for discovery in self._discoveries
        }
        """Last result of each discovery, by its key."""

    async def run(self) -> None:
        """Publish the known targets, then refresh all discoveries until cancelled."""
        await self._publish()
        async with asyncio.TaskGroup() as group:
            for discovery in self._discoveries:
                group.create_task(self._follow(discovery))

    def counts(self) -> dict[str, int]:
        """Return the number of targets of each kind of discovery, zeros included."""
        kinds = Counter(target.discovery for target in self._targets or ())
        return {kind: kinds[kind] for kind in KINDS}

    async def _follow(self, discovery: TargetDiscovery) -> None:
        while True:
            self._log_state(discovery, await self._refresh(discovery))
            await self._clock.sleep_until(self._clock.monotonic() + discovery.refresh)

    async def _refresh(self, discovery: TargetDiscovery) -> str:
        """Refresh a discovery and publish its targets; return the reason of a failure, or empty."""
        try:
            await self._update(discovery, await discovery.targets())
        except DiscoveryError as error:
            if error.targets is not None:
                await self._update(discovery, error.targets)
            return str(error)
        except Exception as error:  # noqa: BLE001  an error in one discovery must not end the others
            return f"unexpected: {type(error).__name__}"
        return ""

    async def _update(self, discovery: TargetDiscovery, targets: Sequence[Target]) -> None:
        if tuple(targets) != self.found[discovery.key]:
            await self._publish({discovery.key: tuple(targets)})

    def _log_state(self, discovery: TargetDiscovery, reason: str) -> None:
        """Log the start of a failure, a change of its reason, and its end; not each refresh.

        A server may fail with another text each time: beyond the line limit, the next refresh tries again.
        """
        failure = self._failures[discovery.key]
        if (reason or None) == failure.reason or not self._lines[discovery.key].take():
            return
        if reason:
            failure.failed(reason)
            _log.warning("discovery_failed", discovery=discovery.name, reason=reason)
        else:
            failure.recovered()
            _log.info("discovery_recovered", discovery=discovery.name)

    async def _publish(self, changed: Mapping[str, Sequence[Target]] = _NO_RESULTS) -> None:
        """Call ``on_change`` if the targets changed; polls continue between the cooperative yields."""
        async with self._publishing:
            found = {**self.found, **changed}
            targets = await cooperatively(self._own_targets(found.values()))
            # After the merge: a list that cannot be merged must not replace the last usable one.
            self.found = found
            if targets != self._targets:
                self._targets = targets
                self._on_change(targets)

    def _own_targets(self, lists: Iterable[Sequence[Target]]) -> Pausing[tuple[Target, ...]]:
        """Return the targets of this shard, with limited labels."""
        merged = yield from merging([self._static, *lists])
        limited = yield from self._labels.limited(merged)
        own: list[Target] = []
        for number, target in enumerate(limited):
            if shard_of(target, self._shard.count) == self._shard.index:
                own.append(target)
            if number % SLICE == SLICE - 1:
                yield
        return tuple(own)


def _configured_names(config: Config) -> Iterator[str]:
    """Yield the label names that the configuration gives to pods."""
    for settings in config.discovery.kubernetes:
        yield from (*sorted(POD_LABELS), *settings.labels)
