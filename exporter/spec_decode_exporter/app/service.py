"""Composition root: build the stages from a configuration, start and stop them."""

from __future__ import annotations

import asyncio
import gc
import platform
import signal
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from typing import Final

import structlog
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR

from spec_decode_exporter.app.fleet_snapshot import FleetSnapshots
from spec_decode_exporter.app.options import Options
from spec_decode_exporter.app.reload import ConfigReloader
from spec_decode_exporter.app.single_flight import SingleFlight
from spec_decode_exporter.config.load import active_yaml
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import Background, cancel, keep_running, spawn, yield_to_event_loop
from spec_decode_exporter.core.version import REVISION, __version__
from spec_decode_exporter.discovery.discoverer import Discoverer
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.monitor.event_log import EventLog, run_name
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMonitor
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.request_receiver import RequestReceiver
from spec_decode_exporter.monitor.snapshot import ExporterStatus, Snapshot
from spec_decode_exporter.monitor.state import Remembered, StateSaver
from spec_decode_exporter.monitor.summary_log import SummaryLog
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.security.guard import Guard
from spec_decode_exporter.web.security.live_config import LiveWebConfig
from spec_decode_exporter.web.server.http_server import Server, serve
from spec_decode_exporter.web.state import AppState

_BASELINE_SECONDS: Final = 5.0
"""Seconds between two looks for a target whose baseline is read from a history."""
_COMPARISON_SECONDS: Final = 5.0
"""Seconds between two comparisons of experiments without a request for them."""
_YOUNG_OBJECTS: Final = 10_000
"""New objects that cause a collection of the young ones; about 1 MB of garbage waits for it."""
_YOUNG_COLLECTIONS: Final = 10
"""Collections of young objects that cause one of those which survived the last."""
SETTLED_AFTER: Final = 60.0
"""Seconds until the first targets have all their objects."""
FULL_EVERY: Final = 600.0
"""Seconds between full collections of garbage."""

_log = structlog.get_logger()


class Service:
    """The running exporter."""

    def __init__(self, read_config: Callable[[], Config], options: Options, clock: Clock) -> None:
        """Be ready to ``start``; the constructor and every reload call ``read_config``.

        Raises:
            ConfigError: The configuration cannot be used.
        """
        self._options = options
        self._clock = clock
        self._discoverer: Discoverer | None = None
        self._discovery: asyncio.Task[None] | None = None
        self._summaries: asyncio.Task[None] | None = None
        self._summary_interval: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._background = Background()
        self._shared_snapshot = SingleFlight(self._take_snapshot, clock.monotonic)
        self._server: Server | None = None
        self._web = LiveWebConfig(options.web_config, clock) if options.web_config else None
        self._errors = errors = Isolation(clock.monotonic)
        self._experiments = ExperimentMonitor(errors)
        self._reloader = ConfigReloader(read_config, options.watched, self, clock)
        self.reload = self._reloader.reload
        """Read the configuration again and adopt it, or keep the old one and raise ConfigError."""
        config = self._reloader.read()
        remembered, events = Remembered(), EventLog(run_name(clock.wall()), clock.monotonic)
        self._events = events
        self.fleet = Fleet(config, clock, remembered, events, errors)
        """The monitored targets."""
        self._receiver = RequestReceiver(config.requests, self.fleet, events, clock, errors)
        self.snapshots = FleetSnapshots(
            self.fleet, self._experiments, self._receiver, events, clock, status=self._status, errors=errors
        )
        """Snapshots of the fleet for /metrics, the JSON API and the page."""
        self._state = StateSaver(remembered, clock, self.fleet.remember)
        self._state.begin(config.state.file)
        self._remembered = remembered
        self._adopt(config)

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of the pages; empty before the start."""
        return self._server.urls if self._server else ()

    async def start(self) -> None:
        """Listen and begin to poll.

        Raises:
            ListenError: The exporter cannot listen on an address.
        """
        guard = Guard(self._web, self._clock) if self._web else None
        app = create_app(self._app_state(), guard)
        self._server = await serve(app, self._options.addresses, self._web)
        self._tasks = [
            self._keep_running("saving", self._save),
            self._keep_running("comparison", self._compare_for_ever),
            self._keep_running("baselines", self._read_baselines),
        ]
        if self._web:
            self._tasks.append(self._keep_running("web configuration", self._web.follow))
        if self._options.watched is not None:
            self._tasks.append(self._keep_running("configuration", self._reloader.follow_file))
        await self.restart()
        _log.info("listening", urls=" ".join(self.urls), version=__version__)

    async def run(self, started: Callable[[Sequence[str]], None]) -> None:
        """Run until SIGTERM or SIGINT; SIGHUP reloads the configuration.

        ``started`` is called with the URLs of the pages once they are served.
        """
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, stop)
        loop.add_signal_handler(signal.SIGHUP, self._reloader.reload_in_background)
        try:
            await self.start()
            self._background.start(collect_garbage(self._clock))
            started(self.urls)
            await stop.wait()
            _log.info("stopping")
        finally:
            await self.close()

    def _stop(self, stop: asyncio.Event) -> None:
        self._options.stopping()
        stop.set()

    async def close(self) -> None:
        """Stop polling, let requests under way end, close every connection."""
        await self._background.cancel()
        await self._reloader.close()
        await cancel([*self._tasks, self._discovery, self._summaries])
        if self._server:
            await self._server.close()
        await self.fleet.stop()
        await self._state.save()
        await self.fleet.close()

    async def adopt(self, config: Config) -> None:
        """Use another configuration."""
        await self._state.use(config.state.file)
        self._adopt(config)

    async def restart(self) -> None:
        """Restart discovery, and the summaries in the log if their interval has changed."""
        await self._discover()
        await self._summarise()

    async def snapshot(self) -> Snapshot:
        """Take the snapshot that the pages show, once for all requests of a second."""
        return await self._shared_snapshot()

    def forget_snapshot(self) -> None:
        """Take a new snapshot for the next request, whatever the time."""
        self._shared_snapshot.forget()

    async def _read_baselines(self) -> None:
        """Read baselines from histories; the code for it is not in memory before one is configured."""
        while not (self._config.baseline or any(monitor.target.baseline for monitor in self.fleet)):
            await self._clock.sleep_until(self._clock.monotonic() + _BASELINE_SECONDS)
        from spec_decode_exporter.history.history_baselines import HistoryBaselines

        baselines = HistoryBaselines(
            self.fleet, lambda: self._config, self._remembered, self._clock, errors=self._errors
        )
        await baselines.run()

    async def _save(self) -> None:
        await self._state.save_for_ever(lambda: self._config.state.interval)

    def _keep_running(self, part: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return spawn(keep_running(part, run, self._errors, self._clock))

    def _adopt(self, config: Config) -> None:
        self._config = self.fleet.config = config
        self._experiments.adopt(config.experiments)
        self._receiver.adopt(config.requests)
        self._config_text = active_yaml(config)
        digest = blake2b(self._config_text.encode(), digest_size=6).digest()
        self._config_hash = int.from_bytes(digest)
        self._adopted_at = self._clock.wall()

    def _app_state(self) -> AppState:
        return AppState(
            metrics=MetricsPage(
                lambda: self._config.metrics, self._errors, (PROCESS_COLLECTOR, PLATFORM_COLLECTOR)
            ),
            version=__version__,
            clock=self._clock,
            snapshot=self.snapshot,
            labels=self.snapshots.labels,
            windows=self.snapshots.windows,
            targets=self.snapshots.targets,
            histories=self.snapshots.histories,
            events=self._events,
            config_text=lambda: self._config_text,
            receiver=self.snapshots.receiver,
            reload=self._reloader.for_clients if self._options.lifecycle else None,
            allowed_hosts=self._options.allowed_hosts,
            errors=self._errors,
        )

    def _status(self) -> ExporterStatus:
        state = self._state.file
        return ExporterStatus(
            version=__version__,
            revision=REVISION,
            python_version=platform.python_version(),
            targets=self._discoverer.counts() if self._discoverer else {},
            targets_not_monitored=self.fleet.not_monitored,
            reload_successful=self._reloader.successful,
            web_reload_successful=self._web.successful if self._web else None,
            reload_success_timestamp=self._adopted_at,
            config_hash=self._config_hash,
            external_url=self._options.external_url,
            log_lines_dropped=self._options.log_lines_dropped(),
            state_saved=None if state is None else not state.failure,
            problem=state.problem if state else "",
        )

    async def _take_snapshot(self) -> Snapshot:
        await self._errors.attempt_async("comparison", self._compare)
        return await self.snapshots.take()

    async def _compare(self) -> None:
        """Compare the arms of experiments."""
        now = self._clock.monotonic()
        members = chain.from_iterable(monitor.members(now) for monitor in self.fleet)
        await self._experiments.compare(members, self._config.windows, now)

    async def _compare_for_ever(self) -> None:
        """Compare every few seconds: verdicts and events depend on it, also without requests."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + _COMPARISON_SECONDS)
            await self._errors.attempt_async("comparison", self._compare)
            await self._receiver.findings()  # emits events of new findings

    async def _summarise(self) -> None:
        """Log a summary of each engine at the configured interval."""
        interval = self._config.log.summary_interval
        if interval == self._summary_interval:
            return
        await cancel([self._summaries])
        self._summary_interval = interval
        self._summaries = None
        if interval:
            summaries = SummaryLog(interval, self._clock, self.fleet.engines, self._errors)
            self._summaries = self._keep_running("summary", summaries.run)

    async def _discover(self) -> None:
        """Start discovery by the configuration in force."""
        await cancel([self._discovery])
        # Known targets stay until the first result, so that a reload loses no target.
        known = self._discoverer.found if self._discoverer else {}
        self._discoverer = Discoverer(self._config, self._clock, self.fleet.follow, known)
        self._discovery = self._keep_running("discovery", self._discoverer.run)
        await yield_to_event_loop()


async def collect_garbage(clock: Clock) -> None:
    """Collect all garbage now and then; begin when the process has started.

    Reference counts free nearly everything; cycles of errors and of closed connections are left. A full
    collection reads every object: 0.6 s of processor time with a thousand engines, in which no poll is
    handled. So objects that stay are excluded, and full collections are rare.
    """
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, 1_000_000)
    for seconds in chain([0.0, SETTLED_AFTER], repeat(FULL_EVERY)):
        await clock.sleep_until(clock.monotonic() + seconds)
        gc.unfreeze()
        gc.collect()
        gc.freeze()
