"""The composition root: builds the stages from a configuration, starts, reloads and drains them."""

from __future__ import annotations

import asyncio
import gc
import platform
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR

from exporter import REVISION, __version__
from exporter.analysis.engine import Findings
from exporter.baselines import Baselines
from exporter.clock import Clock
from exporter.config.load import ConfigError
from exporter.config.redact import redacted
from exporter.config.schema import Config
from exporter.config.units import format_duration
from exporter.event_log import EventLog, run_name
from exporter.experiments import Experiments
from exporter.export.collector import Snapshot, SnapshotCollector, enabled_metrics
from exporter.export.history import Histories
from exporter.export.status import ExporterStatus
from exporter.export.summary import SummaryLog
from exporter.state_file import StateFile
from exporter.targets.discovery import Discoverer
from exporter.targets.target import Target
from exporter.watch import TargetWatch
from exporter.web.api.source import ApiSource
from exporter.web.app import create_app
from exporter.web.listen import ListenAddress, Server, serve
from exporter.web.page.data import PageData, ShownEngine
from exporter.web.security.guard import Guard
from exporter.web.security.live import LiveWebConfig
from exporter.web.state import AppState

_COMPARED_EVERY = 5.0
"""Seconds from one comparison of experiments to the next, where nobody asks in between."""

_LOOK_AGAIN_AFTER = 5.0
"""Seconds from one look at the configuration file to the next."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What does not change with a reload."""

    addresses: Sequence[ListenAddress]
    telemetry_path: str = "/metrics"
    lifecycle: bool = False
    """Whether ``/-/reload`` is served."""
    watched: Path | None = None
    """The configuration file, if it is read again by itself when its content is another."""
    web_config: Path | None = None
    """The file that says who may see the pages."""


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
        self._watches: dict[tuple[str, str], TargetWatch] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._discoverer: Discoverer | None = None
        self._discovery: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._summaries: asyncio.Task[None] | None = None
        self._summary_interval: float | None = None
        self._found: Sequence[Target] = ()
        self._changes = asyncio.Lock()
        self._reloading = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        self._server: Server | None = None
        self._reload_successful = True
        self._watching: asyncio.Task[None] | None = None
        self._web = LiveWebConfig(options.web_config, clock) if options.web_config else None
        self._following: asyncio.Task[None] | None = None
        self._digest = b""
        self._problems = ""
        self._baselines = Baselines()
        self._experiments = Experiments()
        self._comparing: asyncio.Task[None] | None = None
        self._events = EventLog(run_name(clock.wall()))
        self._state_file: StateFile | None = None
        self._disk = asyncio.Lock()
        self._saving_failed = False
        config = self._read()
        if config.state.file:
            self._use_state_file(*_loaded(config.state.file))
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
        self._saving = _spawn(self._save_for_ever())
        self._comparing = _spawn(self._compare_for_ever())
        if self._web:
            self._following = _spawn(self._web.follow())
        if self._options.watched is not None:
            self._watching = _spawn(self._reload_when_it_changes(self._options.watched))
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
            # What is there now stays: the collector need not look at it again, which would hold up the polls.
            gc.collect()
            gc.freeze()
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
            try:
                config = self._read()
            except ConfigError as error:
                problems = "; ".join(map(str, error.problems))
                if not once_told or problems != self._problems:
                    _log.error("reload_failed", problems=problems)
                self._problems = problems
                raise
            await self._open_state_file(config.state.file)
            self._adopt(config)
            self._reload_successful = True
            self._problems = ""
            await self._discover()
            await self._summarise()
            _log.info("reloaded")

    async def close(self) -> None:
        """Stop polling, let requests under way end, close every connection."""
        alone = [
            self._discovery,
            self._saving,
            self._watching,
            self._following,
            self._summaries,
            self._comparing,
        ]
        await _cancel([*self._background, *filter(None, alone)])
        self._events.close()  # whoever reads them as they come would keep the server waiting
        if self._server:
            await self._server.close()
        async with self._changes:
            await _cancel(self._tasks.values())
            await self._save()
            for watch in self._watches.values():
                await watch.close()

    def snapshot(self) -> Snapshot:
        """Take down everything that a page of ours says, at one moment."""
        now = self._clock.monotonic()
        names = sorted({name for watch in self._watches.values() for name, _ in watch.target.labels})
        # Every series of a metric has the same labels; a target without one has it empty.
        empty = dict.fromkeys(names, "")
        engines = [
            ({**empty, **labels}, findings)
            for watch in self._watches.values()
            for labels, findings in watch.findings(now)
        ]
        targets = [({**empty, **watch.labels}, watch.status()) for watch in self._watches.values()]
        return Snapshot(engines, targets, [({}, self._status())], list(self._experiments.findings()))

    async def judge(self) -> None:
        """Judge every engine by its newest poll, experiments first; other polls go on in between."""
        await self._compare()
        for watch in list(self._watches.values()):
            watch.judge()
            await asyncio.sleep(0)

    def _read(self) -> Config:
        # Before it is read: a change in between is then noticed at the next look.
        self._digest = _digest(self._options.watched)
        return self._read_config()

    def _adopt(self, config: Config) -> None:
        self._config = config
        self._experiments.adopt(config.experiments)
        self._enabled = enabled_metrics(config.metrics)
        self._config_text = redacted(config)
        digest = blake2b(self._config_text.encode(), digest_size=6).digest()
        self._config_hash = int.from_bytes(digest)
        self._adopted_at = self._clock.wall()

    async def _open_state_file(self, path: Path | None) -> None:
        async with self._disk:
            if path is None:
                self._state_file = None
            elif self._state_file is None or self._state_file.path != path:
                self._use_state_file(*await asyncio.to_thread(_loaded, path))

    def _use_state_file(self, file: StateFile, saved: Mapping[str, Any]) -> None:
        self._state_file = file
        self._baselines.recall(saved)

    def _app_state(self) -> AppState:
        return AppState(
            collectors=(
                SnapshotCollector(self.snapshot, lambda: self._enabled),
                PROCESS_COLLECTOR,
                PLATFORM_COLLECTOR,
            ),
            version=__version__,
            prepare=self.judge,
            api=self._api_source(),
            page=self._page,
            config_text=lambda: self._config_text,
            ready=lambda: True,
            reload=self.reload if self._options.lifecycle else None,
            telemetry_path=self._options.telemetry_path,
        )

    def _api_source(self) -> ApiSource:
        return ApiSource(
            now=self._clock.wall,
            windows=lambda: [format_duration(length) for length in self._config.windows],
            snapshot=self.snapshot,
            histories=self._histories,
            targets=lambda: [watch.view() for watch in self._watches.values()],
            events=self._events,
        )

    def _histories(self) -> Histories:
        offset = self._clock.wall() - self._clock.monotonic()
        engines = [engine for watch in self._watches.values() for engine in watch.histories()]
        return Histories(offset, self._config.windows[-1], engines)

    def _page(self) -> PageData:
        clock = self._clock
        return PageData(
            clock.wall(),
            (ShownEngine.of(*engine, clock.monotonic()) for engine in self._engines()),
            [watch.view() for watch in self._watches.values()],
            self._events.since().events,
        )

    def _status(self) -> ExporterStatus:
        return ExporterStatus(
            version=__version__,
            revision=REVISION,
            python_version=platform.python_version(),
            targets=self._discoverer.counts() if self._discoverer else {},
            reload_successful=self._reload_successful,
            web_reload_successful=self._web.successful if self._web else None,
            reload_success_timestamp=self._adopted_at,
            config_hash=self._config_hash,
        )

    def _reload_in_background(self) -> None:
        async def reload() -> None:
            try:
                await self.reload()
            except ConfigError:
                return  # it is in the log, and the old configuration goes on

        self._in_background(reload())

    async def _reload_when_it_changes(self, path: Path) -> None:
        """Look at the file again and again; try one that was refused again, for what it names may change.

        The content counts, not the time: Kubernetes changes a ConfigMap by giving a link another aim.
        """
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + _LOOK_AGAIN_AFTER)
            if await asyncio.to_thread(_digest, path) != self._digest or not self._reload_successful:
                with suppress(ConfigError):  # it is in the log, and the old configuration goes on
                    await self.reload(once_told=True)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = _spawn(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _compare(self) -> None:
        """Compare the arms of experiments."""
        now = self._clock.monotonic()
        contestants = chain.from_iterable(watch.contestants(now) for watch in self._watches.values())
        await self._experiments.compare(contestants, self._config.windows, now)

    async def _compare_for_ever(self) -> None:
        """Compare every few seconds, since verdicts go by it even while nobody asks."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + _COMPARED_EVERY)
            await self._compare()

    async def _save_for_ever(self) -> None:
        """Save what the engines have learnt, again and again."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + self._config.state.interval)
            await self._save()

    async def _save(self) -> None:
        """Save what the engines have learnt, where there is a file for it. Whatever comes, this returns."""
        try:
            # Who is cancelled here leaves the lock to the thread that writes on: there is one writer at most.
            await asyncio.shield(self._write())
        except Exception:  # noqa: BLE001
            if not self._saving_failed:
                _log.exception("saving_failed")
            self._saving_failed = True
        else:
            self._saving_failed = False

    async def _summarise(self) -> None:
        """Sum up the engines in the log, as often as is configured now."""
        interval = self._config.log.summary_interval
        if interval == self._summary_interval:
            return
        await _cancel(filter(None, [self._summaries]))
        self._summary_interval = interval
        self._summaries = _spawn(SummaryLog(interval, self._clock, self._engines).run()) if interval else None

    def _engines(self) -> Iterator[tuple[Mapping[str, str], Findings]]:
        """Yield the labels and findings of each engine, as they are when it is its turn."""
        for watch in list(self._watches.values()):
            yield from watch.findings(self._clock.monotonic())

    async def _write(self) -> None:
        async with self._disk:
            for watch in self._watches.values():
                watch.remember()
            if self._state_file:
                learnt = self._baselines.saved(self._clock.wall())
                await asyncio.to_thread(self._state_file.save, learnt)

    async def _discover(self) -> None:
        """Find the targets anew, by the configuration in force."""
        await _cancel(filter(None, [self._discovery]))
        # What was found before stays until it is looked for again, so that a reload loses no target.
        known = self._discoverer.found if self._discoverer else {}
        self._discoverer = Discoverer(self._config, self._clock, self._targets_found, known)
        self._discovery = _spawn(self._discoverer.run())
        await asyncio.sleep(0)

    def _targets_found(self, targets: Sequence[Target]) -> None:
        self._found = targets
        self._in_background(self._follow(targets))

    async def _follow(self, targets: Sequence[Target]) -> None:
        """Watch just these targets: those that are watched already go on with their windows."""
        async with self._changes:
            if targets is not self._found:
                return  # a later list is on its way
            wanted = {target.key: target for target in targets}
            added, gone = wanted.keys() - self._watches.keys(), self._watches.keys() - wanted.keys()
            for key in list(gone):
                await _cancel([self._tasks.pop(key)])
                watch = self._watches.pop(key)
                watch.remember()
                await watch.close()
            for key, target in wanted.items():
                await self._watch(key, target)
            if added or gone:
                _log.info("targets_changed", targets=len(wanted), added=len(added), removed=len(gone))

    async def _watch(self, key: tuple[str, str], target: Target) -> None:
        watch = self._watches.get(key)
        if watch is None:
            self._watches[key] = watch = TargetWatch(
                target, self._config, self._clock, self._baselines, self._events
            )
        elif watch.fits(target, self._config):
            return
        else:
            await _cancel([self._tasks.pop(key)])
            await watch.change(target, self._config)
        self._tasks[key] = _spawn(watch.run())


def _digest(path: Path | None) -> bytes:
    """Return what tells a file's content from another; nothing if there is no such file."""
    with suppress(OSError):
        return blake2b(path.read_bytes()).digest() if path else b""
    return b""


def _loaded(path: Path) -> tuple[StateFile, Mapping[str, Any]]:
    file = StateFile(path)
    return file, file.load()


def _spawn(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Run in the background. That it ended by a defect is said at once, not when somebody misses it."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("task_died", exc_info=error)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
