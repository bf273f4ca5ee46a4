"""The composition root: builds the stages from a configuration, starts, reloads and drains them."""

from __future__ import annotations

import asyncio
import gc
import platform
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import structlog
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR

from spec_decode_exporter.app.fleet_snapshot import FleetSnapshots
from spec_decode_exporter.config.load import ConfigError
from spec_decode_exporter.config.redact import redacted
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.yaml_tree import read_beginning
from spec_decode_exporter.core.background_tasks import Background, cancel, keep_running, spawn
from spec_decode_exporter.core.batched import Batched
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.core.single_flight import SingleFlight
from spec_decode_exporter.core.version import REVISION, __version__
from spec_decode_exporter.discovery.discoverer import Discoverer
from spec_decode_exporter.metrics.catalogue import enabled_metrics
from spec_decode_exporter.metrics.collector import SnapshotCollector
from spec_decode_exporter.monitor.event_log import EventLog, run_name
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMonitor
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.persister import StatePersister
from spec_decode_exporter.monitor.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.request_receiver import RequestReceiver
from spec_decode_exporter.monitor.summary_log import SummaryLog
from spec_decode_exporter.views.target_status import ExporterStatus
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.security.guard import Guard
from spec_decode_exporter.web.security.hosts import EVERY_HOST, AllowedHosts
from spec_decode_exporter.web.security.live_config import LiveWebConfig
from spec_decode_exporter.web.server.listen import Address, Server, serve
from spec_decode_exporter.web.state import AppState

_COMPARED_EVERY = 5.0
"""Seconds from one comparison of experiments to the next, where nobody asks in between."""

_SETTLED_AFTER = 60.0
"""Seconds after the start in which every target was polled often, also with its histograms."""

_LOOK_AGAIN_AFTER = 5.0
"""Seconds from one look at the configuration file to the next."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What does not change with a reload."""

    addresses: Sequence[Address]
    telemetry_path: str = "/metrics"
    lifecycle: bool = False
    """Whether ``/-/reload`` is served."""
    watched: Path | None = None
    """The configuration file, if it is read again by itself when its content is another."""
    web_config: Path | None = None
    """The file that says who may see the pages."""
    allowed_hosts: AllowedHosts = EVERY_HOST
    """The host names that clients may ask for."""


class Service:
    """The running exporter."""

    def __init__(self, read_config: Callable[[], Config], options: Options, clock: Clock) -> None:
        """Be ready to ``start``; ``read_config`` is called then and at every reload.

        Raises:
            ConfigError: the configuration cannot be used.
        """
        self._read_config = read_config
        self._options = options
        self._clock = clock
        self._discoverer: Discoverer | None = None
        self._discovery: asyncio.Task[None] | None = None
        self._summaries: asyncio.Task[None] | None = None
        self._summary_interval: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._reloading = asyncio.Lock()
        self._background = Background()
        self._preparing = SingleFlight(self._prepare, clock.monotonic)
        self._reload_for_clients = Batched(self.reload, clock)
        self._server: Server | None = None
        self._reload_successful = True
        self._web = LiveWebConfig(options.web_config, clock) if options.web_config else None
        self._digest = b""
        self._problems = ""
        self._experiments = ExperimentMonitor()
        self._errors = errors = InternalErrors(clock.monotonic)
        config = self._read()
        baselines, events = RememberedEngines(), EventLog(run_name(clock.wall()))
        self._events = events
        self.fleet = Fleet(config, clock, baselines, events, errors)
        """The targets that are watched."""
        self._receiver = RequestReceiver(config.requests, self.fleet, events, clock, errors)
        self.overview = FleetSnapshots(
            self.fleet, self._experiments, self._receiver, events, clock, status=self._status, errors=errors
        )
        """What there is to say of them."""
        self._persister = StatePersister(baselines, clock, self.fleet.remember)
        self._persister.begin(config.state.file)
        self._adopt(config)

    @property
    def urls(self) -> Sequence[str]:
        """Where the exporter's pages are, once it is started."""
        return self._server.urls if self._server else ()

    async def start(self) -> None:
        """Listen and begin to poll.

        Raises:
            ListenError: an address cannot be listened on.
            ValueError: the telemetry path cannot be served.
        """
        guard = Guard(self._web, self._clock) if self._web else None
        self._server = await serve(create_app(self._app_state(), guard), self._options.addresses, self._web)
        self._tasks = [
            self._keep_running("saving", self._save),
            self._keep_running("comparison", self._compare_for_ever),
        ]
        if self._web:
            self._tasks.append(self._keep_running("web configuration", self._web.follow))
        if self._options.watched is not None:
            follow = partial(self._reload_when_it_changes, self._options.watched)
            self._tasks.append(self._keep_running("configuration", follow))
        await self._discover()
        await self._summarise()
        _log.info("listening", urls=" ".join(self.urls), version=__version__)

    async def run(self, started: Callable[[Sequence[str]], None]) -> None:
        """Run until SIGTERM or SIGINT; SIGHUP reads the configuration again.

        ``started`` is called with the URLs of the exporter's pages once they are served.
        """
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload_in_background)
        try:
            await self.start()
            _freeze()
            self._background.start(self._freeze_again())
            started(self.urls)
            await stop.wait()
            _log.info("stopping")
        finally:
            await self.close()

    async def reload(self, *, once_told: bool = False) -> None:
        """Read the configuration again and adopt it whole, or keep the old one and raise ConfigError.

        With ``once_told``, mistakes that the log has already are not told again.
        """
        async with self._reloading:
            self._reload_successful = False
            self._preparing.forget()
            try:
                config = await asyncio.to_thread(self._read)  # a long one would hold up the polls
            except ConfigError as error:
                problems = "; ".join(map(str, error.problems))
                if not once_told or problems != self._problems:
                    _log.error("reload_failed", problems=problems)
                self._problems = problems
                raise
            await self._persister.use(config.state.file)
            self._adopt(config)
            self._reload_successful = True
            self._preparing.forget()  # the first scrape after a reload shows it
            self._problems = ""
            await self._discover()
            await self._summarise()
            _log.info("reloaded")

    async def close(self) -> None:
        """Stop polling, let requests under way end, close every connection."""
        await self._background.cancel()
        await self._reload_for_clients.close()
        await cancel([*self._tasks, self._discovery, self._summaries])
        self._events.close()  # whoever reads them as they come would keep the server waiting
        if self._server:
            await self._server.close()
        await self.fleet.stop()
        await self._persister.save()
        await self.fleet.close()

    async def _save(self) -> None:
        await self._persister.save_for_ever(lambda: self._config.state.interval)

    def _keep_running(self, part: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return spawn(keep_running(part, run, self._errors, self._clock))

    def _read(self) -> Config:
        # Before it is read: a change in between is then noticed at the next look.
        self._digest = _digest(self._options.watched)
        return self._read_config()

    def _adopt(self, config: Config) -> None:
        self._config = self.fleet.config = config
        self._experiments.adopt(config.experiments)
        self._receiver.adopt(config.requests)
        self._enabled = enabled_metrics(config.metrics)
        self._config_text = redacted(config)
        digest = blake2b(self._config_text.encode(), digest_size=6).digest()
        self._config_hash = int.from_bytes(digest)
        self._adopted_at = self._clock.wall()

    def _app_state(self) -> AppState:
        return AppState(
            collectors=(
                SnapshotCollector(self.overview.snapshot, lambda: self._enabled, self._errors),
                PROCESS_COLLECTOR,
                PLATFORM_COLLECTOR,
            ),
            version=__version__,
            prepare=self.prepare,
            api=self.overview.api(),
            page=self.overview.page,
            config_text=lambda: self._config_text,
            ready=lambda: True,
            reload=self._reload_for_clients if self._options.lifecycle else None,
            telemetry_path=self._options.telemetry_path,
            allowed_hosts=self._options.allowed_hosts,
            errors=self._errors,
        )

    def _status(self) -> ExporterStatus:
        return ExporterStatus(
            version=__version__,
            revision=REVISION,
            python_version=platform.python_version(),
            targets=self._discoverer.counts() if self._discoverer else {},
            targets_not_watched=self.fleet.not_watched,
            reload_successful=self._reload_successful,
            web_reload_successful=self._web.successful if self._web else None,
            reload_success_timestamp=self._adopted_at,
            config_hash=self._config_hash,
        )

    async def _freeze_again(self) -> None:
        """Do it once more for the targets that the exporter starts with."""
        await self._clock.sleep_until(self._clock.monotonic() + _SETTLED_AFTER)
        _freeze()

    def _reload_in_background(self) -> None:
        async def reload() -> None:
            try:
                await self.reload()
            except ConfigError:
                return  # it is in the log, and the old configuration goes on

        self._background.start(reload())

    async def _reload_when_it_changes(self, path: Path) -> None:
        """Look at the file again and again; try one that was refused again, for what it names may change.

        The content counts, not the time: Kubernetes changes a ConfigMap by giving a link another aim.
        """
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + _LOOK_AGAIN_AFTER)
            if await asyncio.to_thread(_digest, path) != self._digest or not self._reload_successful:
                with suppress(ConfigError):  # it is in the log, and the old configuration goes on
                    await self.reload(once_told=True)

    async def prepare(self) -> int:
        """Take the snapshot that the pages show, once for all requests of a second; return its number."""
        return await self._preparing()

    async def _prepare(self) -> None:
        await self._errors.attempt_async("comparison", self._compare)
        await self.overview.take()

    async def _compare(self) -> None:
        """Compare the arms of experiments."""
        now = self._clock.monotonic()
        members = chain.from_iterable(watch.members(now) for watch in self.fleet)
        await self._experiments.compare(members, self._config.windows, now)

    async def _compare_for_ever(self) -> None:
        """Compare every few seconds, since verdicts go by it, and events are told, even while nobody asks."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + _COMPARED_EVERY)
            await self._errors.attempt_async("comparison", self._compare)
            await self._receiver.findings()  # what is new of them is told

    async def _summarise(self) -> None:
        """Sum up the engines in the log, as often as is configured now."""
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
        """Find the targets anew, by the configuration in force."""
        await cancel([self._discovery])
        # What was found before stays until it is looked for again, so that a reload loses no target.
        known = self._discoverer.found if self._discoverer else {}
        self._discoverer = Discoverer(self._config, self._clock, self.fleet.follow, known)
        self._discovery = self._keep_running("discovery", self._discoverer.run)
        await asyncio.sleep(0)


def _freeze() -> None:
    """Let what is there now stay: the collector need not look at it again, which would hold up the polls."""
    gc.collect()
    gc.freeze()


def _digest(path: Path | None) -> bytes:
    """Return what tells a file's content from another; nothing if there is no such file."""
    with suppress(OSError):
        return blake2b(read_beginning(path)).digest() if path else b""
    return b""
