"""/metrics of a fleet that no exporter serves: an observation, or a recording."""

from __future__ import annotations

import platform
from itertools import chain

from spec_decode_exporter.app.fleet_snapshot import FleetSnapshots
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.version import REVISION, __version__
from spec_decode_exporter.discovery.target import CONFIGURED
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMonitor
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.request_receiver import RequestReceiver
from spec_decode_exporter.monitor.snapshot import ExporterStatus


class MetricsText:
    """Writes what an exporter with this fleet would serve at /metrics, without metrics of a process."""

    def __init__(self, fleet: Fleet, events: EventLog, clock: Clock) -> None:
        """Write the metrics of ``fleet`` by its configuration, with every window of it."""
        config = fleet.config
        errors = Isolation(clock.monotonic)
        self._fleet, self._clock, self._began = fleet, clock, clock.wall()
        self._experiments = ExperimentMonitor(errors)
        self._experiments.adopt(config.experiments)
        receiver = RequestReceiver(config.requests, fleet, events, clock, errors)
        self._snapshots = FleetSnapshots(
            fleet, self._experiments, receiver, events, clock, status=self._status, errors=errors
        )
        self._page = MetricsPage(lambda: config.metrics, errors)

    async def text(self) -> str:
        """Return the metrics at the present moment of the clock."""
        now = self._clock.monotonic()
        members = chain.from_iterable(monitor.members(now) for monitor in self._fleet)
        await self._experiments.compare(members, self._fleet.config.windows, now)
        return self._page.text(await self._snapshots.take())

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
