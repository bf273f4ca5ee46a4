"""What there is to say at a moment: one view of the fleet for the metrics, the JSON API and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.metrics.engine_metrics import ENGINE_LABELS
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMonitor
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.request_receiver import RequestReceiver
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.history import Histories
from spec_decode_exporter.views.models import TargetView
from spec_decode_exporter.views.target_status import ExporterStatus
from spec_decode_exporter.web.api.api_source import ApiSource
from spec_decode_exporter.web.page.page_data import OmittedEngine, PageData, ShownEngine


class FleetSnapshots:
    """Takes down what the fleet, the experiments and the exporter have to say."""

    def __init__(
        self,
        fleet: Fleet,
        experiments: ExperimentMonitor,
        receiver: RequestReceiver,
        events: EventLog,
        clock: Clock,
        *,
        status: Callable[[], ExporterStatus],
        errors: InternalErrors | None = None,
    ) -> None:
        self._errors = errors or InternalErrors(clock.monotonic)
        self._fleet = fleet
        self._experiments = experiments
        self._receiver = receiver
        self._events = events
        self._clock = clock
        self._status = status
        self._taken = Snapshot()

    def snapshot(self) -> Snapshot:
        """Return what was taken down last: whoever reads it sees all of one moment."""
        return self._taken

    async def take(self) -> None:
        """Judge every engine by its newest poll and take down what there is to say.

        The polls go on in between: a thousand engines take a second. What is said of one engine, and of one
        target, is all of the same poll.
        """
        last_event = self._events.last
        requests = await self._receiver.findings()
        engines: list[tuple[Mapping[str, str], EngineSnapshot]] = []
        for engine in self._fleet.engines():
            engines.append(engine)
            await asyncio.sleep(0)
        names = self._own_labels()
        # Every series of a metric has the same labels; a target without one has it empty.
        empty = dict.fromkeys(names, "")
        self._taken = Snapshot(
            [({**empty, **labels}, findings) for labels, findings in engines],
            list(self._fleet.each("targets", lambda watch: ({**empty, **watch.labels}, watch.status()))),
            list(self._errors.each("exporter", [self._status], lambda _: {}, lambda status: ({}, status()))),
            list(self._experiments.findings()),
            last_event,
            requests,
        )

    def api(self) -> ApiSource:
        """Return what the JSON API asks."""
        return ApiSource(
            now=self._clock.wall,
            labels=lambda: [*ENGINE_LABELS, *self._own_labels()],
            windows=lambda: [format_duration(length) for length in self._fleet.config.windows],
            snapshot=self.snapshot,
            histories=self._histories,
            targets=self._targets,
            events=self._events,
            requests=lambda: self._taken.requests,
            receiver=lambda: self._receiver if self._receiver.is_open else None,
        )

    def page(self) -> PageData:
        """Return what the page at ``/`` shows."""
        now = self._clock.monotonic()
        return PageData(
            self._clock.wall(),
            (self._shown(*engine, now) for engine in self._taken.engines),
            self._targets(),
            self._events.since().events,
            self._taken.requests,
            self._errors,
        )

    def _shown(
        self, labels: Mapping[str, str], findings: EngineSnapshot, now: float
    ) -> ShownEngine | OmittedEngine:
        shown = self._errors.attempt("page", labels, lambda: ShownEngine.of(labels, findings, now))
        return shown or OmittedEngine(labels)

    def _targets(self) -> list[TargetView]:
        return list(self._fleet.each("targets", lambda watch: watch.view()))

    def _own_labels(self) -> list[str]:
        """Return the names of the labels that any target has of its own."""
        return sorted({name for watch in self._fleet for name, _ in watch.target.labels})

    def _histories(self) -> Histories:
        offset = self._clock.wall() - self._clock.monotonic()
        engines = [engine for watch in self._fleet for engine in watch.histories()]
        return Histories(offset, self._fleet.config.windows[-1], engines)
