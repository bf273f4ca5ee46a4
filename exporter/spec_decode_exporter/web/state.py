"""Data sources of all handlers: the fleet, its experiments, requests and events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import count
from math import inf
from typing import Final, TypeVar

from aiohttp import web
from prometheus_client.registry import Collector

from spec_decode_exporter.config.load import active_yaml
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.discovery.target import CONFIGURED
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.metrics.subject import ENGINE
from spec_decode_exporter.monitor.fleet import ExperimentMonitor, Fleet
from spec_decode_exporter.monitor.snapshot import ExporterStatus, Snapshot
from spec_decode_exporter.requests.receiver import RequestReceiver, TargetCosts
from spec_decode_exporter.requests.store import RequestFindings
from spec_decode_exporter.web.hosts import AllowedHosts

SHARED_SECONDS: Final = 1.0  # for which requests share a snapshot
_SLICE: Final = 16  # engines or targets between two yields to the event loop: a millisecond of work

T = TypeVar("T")


class ExporterState:
    """What an exporter serves; also what a command knows of a fleet that no exporter serves."""

    version = __version__

    def __init__(
        self,
        fleet: Fleet,
        *,
        status: Callable[[], ExporterStatus] | None = None,
        collectors: Sequence[Collector] = (),
        reload: Callable[[], Awaitable[None]] | None = None,
        allowed_hosts: AllowedHosts | None = None,
    ) -> None:
        """Adopt the configuration of ``fleet``.

        ``status`` returns that of the exporter, ``collectors`` more metrics; ``reload`` raises ConfigError.
        """
        self.fleet, shared = fleet, fleet.shared
        self.events, self.clock, self.errors = shared.events, shared.clock, shared.errors
        self.metrics = MetricsPage(lambda: fleet.config.metrics, self.errors, collectors)
        shared.after_evaluation.append(self.metrics.prepare)
        self.reload, self.allowed_hosts = reload, allowed_hosts or AllowedHosts()
        self._experiments = ExperimentMonitor(self.errors)
        self._receiver = RequestReceiver(fleet.config.requests, self._costs, self.clock, self.errors)
        self._status = status or (
            lambda: ExporterStatus(
                targets={CONFIGURED: len([*fleet])}, reload_success_timestamp=self.adopted_at
            )
        )
        self._numbers, self._lock, self._changes = count(1), asyncio.Lock(), 0
        self._shared: Snapshot | None = None
        self._shared_until = -inf
        self.config_text = ""  # active configuration as YAML, without its secrets
        self.adopt(fleet.config)

    def adopt(self, config: Config) -> None:
        """Use another configuration."""
        self.fleet.adopt(config)
        self._experiments.adopt(config.experiments)
        if config.requests != self._receiver.settings:
            self._receiver = RequestReceiver(config.requests, self._costs, self.clock, self.errors)
        self.config_text = active_yaml(config)
        self.adopted_at = self.clock.wall()

    async def snapshot(self) -> Snapshot:
        """Take a snapshot, at most once in ``SHARED_SECONDS`` for all callers of that time.

        A longer one is shared for twice its duration, so snapshots take at most half of the time.
        """
        called = self.clock.monotonic()
        async with self._lock:
            if self._shared is None or called >= self._shared_until:
                self._shared = None  # the next one may need its memory
                changes, begun = self._changes, self.clock.monotonic()
                self._shared = await self.take()
                duration = self.clock.monotonic() - begun
                is_current = changes == self._changes
                self._shared_until = begun + max(SHARED_SECONDS, 2 * duration) if is_current else -inf
            return self._shared

    def forget_snapshot(self) -> None:
        """Take a new snapshot for the next call, whatever the time."""
        self._changes += 1
        self._shared_until = -inf

    async def take(self) -> Snapshot:
        """Evaluate experiments and requests, and take a snapshot of everything.

        The values of an engine are those of its last evaluation, its counters those of the newest poll.
        """
        last_event = self.events.last
        requests = await self.evaluate()
        engines = await paced(self.fleet.engines())
        # All series of a metric have the same label names; a target without such a label has it empty.
        empty = dict.fromkeys(self._own_labels(), "")
        return Snapshot(
            [({**empty, **labels}, snapshot) for labels, snapshot in engines],
            await paced(self.fleet.each("targets", lambda each: ({**empty, **each.labels}, each.status()))),
            list(self.errors.each("exporter", [self._status], lambda _: {}, lambda status: ({}, status()))),
            list(self._experiments.findings()),
            last_event,
            requests,
            number=next(self._numbers),
        )

    async def evaluate(self) -> RequestFindings:
        """Compare the arms of experiments, and evaluate requests; emit events of the comparisons."""
        now, windows = self.clock.monotonic(), self.fleet.config.windows
        if now >= self._shared_until:
            self._shared = None  # with it, the evaluations that newer ones have replaced
        requests = await self._receiver.findings(windows)
        members = (each for monitor in self.fleet for each in monitor.members(now, self._receiver.times))
        work = partial(self._experiments.compare, members, windows, now)
        await self.errors.attempt_async("comparison", work)
        return requests

    def labels(self) -> list[str]:
        """Return the names of the labels that engines have."""
        return [*ENGINE.labels, *self._own_labels()]

    def windows(self) -> list[str]:
        """Return the configured windows, as in the label ``window``."""
        return [format_duration(length) for length in self.fleet.config.windows]

    def receiver(self) -> RequestReceiver | None:
        """Return the receiver of single requests; None if the configuration disables it."""
        return self._receiver if self._receiver.settings.ingest else None

    def _costs(self) -> TargetCosts:
        return ((monitor.target.name, monitor.costs()) for monitor in self.fleet)

    def _own_labels(self) -> list[str]:
        return sorted({name for monitor in self.fleet for name, _ in monitor.target.labels})


async def paced(items: Iterable[T]) -> list[T]:
    """Return items that are computed one by one; yield to the event loop after each ``_SLICE``."""
    taken, pace = list[T](), Pace(_SLICE)
    for item in items:
        taken.append(item)
        await pace.done()
    return taken


STATE: Final = web.AppKey("state", ExporterState)
