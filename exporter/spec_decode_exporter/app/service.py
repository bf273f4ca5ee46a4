"""Composition root: build the stages from a configuration, start and stop them."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain, repeat
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR

from spec_decode_exporter.app.reload import ConfigReloader
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.tasks import Background, cancel, keep_running, spawn, yield_to_event_loop
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.discovery.discoverer import Discoverer
from spec_decode_exporter.monitor.fleet import Fleet, write_summaries
from spec_decode_exporter.monitor.snapshot import ExporterStatus
from spec_decode_exporter.monitor.state import StateSaver
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.hosts import AllowedHosts
from spec_decode_exporter.web.security import Guard, LiveWebConfig
from spec_decode_exporter.web.server import NO_TLS, Address, Server, Tls, serve
from spec_decode_exporter.web.state import ExporterState

_LOOK_SECONDS: Final = 5.0
"""Seconds between two comparisons of experiments, and between two looks for a target with a baseline."""
_YOUNG_OBJECTS: Final = 10_000  # new objects that cause a collection of them; about 1 MB of garbage waits
_YOUNG_COLLECTIONS: Final = 10  # collections of young objects that cause one of those which survived the last
SETTLED_AFTER: Final = 60.0  # seconds until the first targets have all their objects
FULL_EVERY: Final = 600.0  # seconds between full collections of garbage

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """Settings that a reload does not change."""

    addresses: Sequence[Address]
    lifecycle: bool = False  # serve ``/-/reload``
    external_url: str = ""  # address of the pages in a browser, without a slash at its end; empty if unknown
    simulated: bool = False  # the targets are embedded simulated servers
    watched: Path | None = None
    """The configuration file to reload when its content changes; None without automatic reload."""
    web_config: Path | None = None  # the file of ``--web.config.file``: TLS and users of the pages
    allowed_hosts: AllowedHosts = field(default_factory=AllowedHosts)  # host names that a request may have
    log_lines_dropped: Callable[[], int] = lambda: 0
    """Returns the number of log lines that were dropped, because their reader does not read."""


class Service:
    """The running exporter."""

    def __init__(self, read_config: Callable[[], Config], options: Options, clock: Clock) -> None:
        """Be ready to ``start``; the constructor and every reload call ``read_config``.

        Raises:
            ConfigError: The configuration cannot be used.
        """
        self._options, self._clock = options, clock
        self._web = LiveWebConfig(options.web_config, clock) if options.web_config else None
        self._reloader = ConfigReloader(read_config, self._use, self._reloaded, clock, options.watched)
        self.reload = self._reloader.reload
        """Read the configuration again and adopt it, or keep the old one and raise ConfigError."""

        shared = Shared(clock)
        self._errors, self.fleet = shared.errors, Fleet(self._reloader.read(), shared)
        """The monitored targets."""
        self.state = ExporterState(
            self.fleet,
            status=self._status,
            collectors=(PROCESS_COLLECTOR, PLATFORM_COLLECTOR),
            reload=self.reload if options.lifecycle else None,
            allowed_hosts=options.allowed_hosts,
        )
        """Data sources of /metrics, the JSON API and the page."""
        self._saver = StateSaver(shared.remembered, clock, self.fleet.remember)

        self._discoverer: Discoverer | None = None
        self._summary_interval: float | None = None
        self._server: Server | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._background = Background()

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of the pages; empty before the start."""
        return self._server.urls if self._server else ()

    async def start(self) -> None:
        """Listen and begin to poll.

        Raises:
            ListenError: The exporter cannot listen on an address.
        """
        await self._saver.use(self.fleet.config.state)
        guard = Guard(self._web) if self._web else None
        tls = Tls(self._web.context, self._web.admits) if self._web else NO_TLS
        self._server = await serve(create_app(self.state, guard), self._options.addresses, tls)
        self._keep_running("saving", self._saver.save_for_ever)
        self._keep_running("comparison", self._compare)
        self._keep_running("baselines", self._read_baselines)
        if self._web:
            self._keep_running("web configuration", self._web.follow)
        if self._options.watched is not None:
            self._keep_running("configuration", self._reloader.follow_file)
        await self._restart()
        _log.info("listening", urls=" ".join(self.urls), version=__version__)

    async def run(self, started: Callable[[Sequence[str]], None] = lambda _: None) -> None:
        """Run until SIGTERM or SIGINT; SIGHUP reloads the configuration.

        ``started`` is called with the URLs of the pages once they are served.
        """
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        reload = self._reloader.reload_or_keep
        loop.add_signal_handler(signal.SIGHUP, lambda: self._background.start(reload()))
        try:
            await self.start()
            self._background.start(collect_garbage(self._clock))
            started(self.urls)
            await stop.wait()
            _log.info("stopping")
        finally:
            await self.close()

    async def close(self) -> None:
        """Let requests under way end, close every connection, stop polling, save the state."""
        if self._server:
            await self._server.close()
        await self._background.cancel()
        await cancel(self._tasks.values())
        await self.fleet.stop()
        await self._errors.attempt_async("saving", self._saver.save)
        await self.fleet.close()

    async def _use(self, config: Config) -> None:
        await self._saver.use(config.state)
        self.state.adopt(config)
        await self._restart()

    def _reloaded(self) -> None:
        self.state.forget_snapshot()  # the first scrape after a reload shows its result

    async def _restart(self) -> None:
        """Restart the tasks that depend on the configuration: discovery, and summaries in the log."""
        config = self.fleet.config
        await cancel([self._tasks.pop("discovery", None)])
        # Known targets stay until the first result, so that a reload loses no target.
        known = self._discoverer.found if self._discoverer else {}
        self._discoverer = Discoverer(config, self._clock, self.fleet.follow, known)
        self._keep_running("discovery", self._discoverer.run)
        await yield_to_event_loop()
        interval = config.log.summary_interval
        if interval != self._summary_interval:
            self._summary_interval = interval
            await cancel([self._tasks.pop("summary", None)])
            if interval:
                self._keep_running("summary", partial(write_summaries, interval, self.fleet))

    def _keep_running(self, part: str, run: Callable[[], Awaitable[None]]) -> None:
        self._tasks[part] = spawn(keep_running(part, run, self._errors, self._clock))

    async def _compare(self) -> None:
        """Compare experiments and requests every few seconds: verdicts and events depend on it."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + _LOOK_SECONDS)
            await self.state.evaluate()

    async def _read_baselines(self) -> None:
        """Read baselines from histories; the code for it is not in memory before one is configured."""
        while not (self.fleet.config.baseline or any(monitor.target.baseline for monitor in self.fleet)):
            await self._clock.sleep_until(self._clock.monotonic() + _LOOK_SECONDS)
        from spec_decode_exporter.history.history_baselines import HistoryBaselines

        await HistoryBaselines(self.fleet).run()

    def _status(self) -> ExporterStatus:
        file = self._saver.file
        return ExporterStatus(
            targets=self._discoverer.counts() if self._discoverer else {},
            targets_not_monitored=self.fleet.not_monitored,
            reload_problem=self._reloader.problem,
            web_reload_successful=self._web.successful if self._web else None,
            reload_success_timestamp=self.state.adopted_at,
            config_hash=int.from_bytes(blake2b(self.state.config_text.encode(), digest_size=6).digest()),
            external_url=self._options.external_url,
            simulated=self._options.simulated,
            log_lines_dropped=self._options.log_lines_dropped(),
            state_problem=file.problem if file else None,
        )


async def collect_garbage(clock: Clock) -> None:
    """Collect all garbage now and then; begin when the process has started.

    Only cycles of errors and of closed connections need it, and it reads every object: 0.6 s of processor
    time with a thousand engines, in which no poll is handled. So objects that stay are excluded.
    """
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, 1_000_000)
    for seconds in chain([0.0, SETTLED_AFTER], repeat(FULL_EVERY)):
        await clock.sleep_until(clock.monotonic() + seconds)
        gc.unfreeze()
        gc.collect()
        gc.freeze()
