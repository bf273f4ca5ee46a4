"""/metrics of a fleet that no exporter serves: an observation, or a recording."""

from __future__ import annotations

import platform
from itertools import chain

from spec_decode_exporter.app.fleet_snapshot import FleetSnapshots
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.core.version import REVISION, __version__
from spec_decode_exporter.discovery.target import CONFIGURED
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.selection import selected_metrics
from spec_decode_exporter.metrics.snapshot_writer import SnapshotWriter
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMonitor
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.request_receiver import RequestReceiver
from spec_decode_exporter.monitor.target_status import ExporterStatus


class MetricsText:
    """Writes what an exporter with this fleet would serve at /metrics, without metrics of a process."""

    def __init__(self, fleet: Fleet, events: EventLog, clock: Clock) -> None:
        """Write the metrics of ``fleet`` by its configuration, with every window of it."""
        config = fleet.config
        errors = InternalErrors(clock.monotonic)
        self._fleet, self._clock, self._began = fleet, clock, clock.wall()
        self._experiments = ExperimentMonitor(errors)
        self._experiments.adopt(config.experiments)
        receiver = RequestReceiver(config.requests, fleet, events, clock, errors)
        self._snapshots = FleetSnapshots(
            fleet, self._experiments, receiver, events, clock, status=self._status, errors=errors
        )
        selection = selected_metrics(config.metrics, config.windows)
        self._writer = SnapshotWriter(lambda: selection, errors)

    async def text(self) -> str:
        """Return the metrics at the present moment of the clock."""
        now = self._clock.monotonic()
        members = chain.from_iterable(monitor.members(now) for monitor in self._fleet)
        await self._experiments.compare(members, self._fleet.config.windows, now)
        snapshot = await self._snapshots.take()
        return "".join(piece.text for piece in self._writer.pieces(snapshot, Format.TEXT_0_0_4))

    def _status(self) -> ExporterStatus:
        return ExporterStatus(
            version=__version__,
            revision=REVISION,
            python_version=platform.python_version(),
            targets={CONFIGURED: sum(1 for _ in self._fleet)},
            reload_successful=True,
            reload_success_timestamp=self._began,
            config_hash=0,
        )
