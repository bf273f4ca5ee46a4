"""Observe servers for a limited time without serving anything.

Stages and formulas are those of the exporter. Only the window differs: it is as long as the observation, so
that the evaluation covers all of it and nothing before it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.types import parse_duration
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.core.urls import model_of
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.history.history_baselines import HistoryBaselines
from spec_decode_exporter.history.recording import RecordingClock, replay
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.reports.saved_snapshot import read_rates
from spec_decode_exporter.scrape.credentials import credential_mistakes
from spec_decode_exporter.scrape.poll_record import RawPoll, Recorded
from spec_decode_exporter.scrape.poller import Poller
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import TargetView, target_view
from spec_decode_exporter.views.headline import target_problem

MAX_WINDOW: Final = 3600.0  # longest window, in seconds, of an observation without an end
DEFAULT_SECONDS: Final = 60.0
"""Default length of an observation: in 30 s too few requests pass for bounds and advice on usual answers."""
RECENT: Final = 30.0  # length, in seconds, of the short second window of a longer observation
MIN_POLLS: Final = 6
"""Minimum number of polls of each server in an observation, unless a flag sets their interval."""
BASELINE_SECONDS: Final = 60.0
"""Seconds that an observation waits after its end for a baseline that is still being read."""
HOPELESS_SECONDS: Final = 10.0
"""Seconds after which servers that never answered end an observation, or one of them if all are needed."""
_HOPELESS: Final = re.compile(r"dns|tls|no TLS|malformed|status (3\d\d|400|401|403|404|410)")
"""Failures that waiting cannot cure; one with these alone ends at once."""
_LOOK_SECONDS: Final = 0.2

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class NotMeasuredError(ExporterError):
    """A server did not answer, or shows no engine. The text has the reason for each server."""


def observation_of(
    time: float,
    seconds: float,
    engines: Iterable[tuple[Mapping[str, str], EngineSnapshot]],
    targets: tuple[TargetView, ...],
    *,
    events: tuple[RecordedEvent, ...] = (),
    errors: Isolation | None = None,
) -> ObservationView:
    """Return an observation of labelled engines up to a Unix time; the last window of each is as long as it.

    An engine that cannot be shown has only its id, in ``targets``.
    """

    def view(engine: tuple[Mapping[str, str], EngineSnapshot]) -> EngineView:
        # Computed as a whole here, where an internal error is isolated.
        return EngineView(labels=engine[0], snapshot=engine[1]).read_all()

    views = (errors or Isolation()).each("report", engines, itemgetter(0), view)
    return ObservationView(
        time=time,
        version=__version__,
        engines=tuple(views),
        seconds=seconds,
        targets=targets,
        events=events,
    )


def check_complete(view: ObservationView) -> None:
    """Raise NotMeasuredError if a target is missing: without it, the figures of its model would differ."""
    missing = [target for target in view.targets if not target.up or not target.engines]
    if missing:
        reasons = (f"{each.target}: {target_problem(each) or 'No answer came in time.'}" for each in missing)
        raise NotMeasuredError(" ".join(reasons).removesuffix("."))


class Observation:
    """Polls servers; ``observed`` returns the result at any time."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        targets: Sequence[Target] | None = None,
        recorded: Recorded | None = None,
    ) -> None:
        """Prepare to ``poll`` the targets, by default the static ones of ``config``; see ``observed_config``.

        ``recorded`` takes each raw poll, to record it.
        """
        self._clock, self._max_window = clock, config.windows[-1]
        shared = Shared(clock, spread=False, recorded=recorded)
        self.events = shared.events
        self.fleet = Fleet(config, shared)  # monitors of the targets
        self.fleet.watch(static_targets(config) if targets is None else targets)
        self._monitors = list(self.fleet)
        self._baselines = HistoryBaselines(self.fleet)
        self._began = clock.monotonic()
        self._ended: float | None = self._began

    async def poll(
        self,
        end: Awaitable[object],
        *,
        stopped: Callable[[], bool] = lambda: False,
        gives_up: bool = True,
        needs_all: bool = False,
    ) -> None:
        """Poll every server until ``end`` is done, and once more to complete the window.

        Configured baselines are read at the same time. They are waited for after the end, unless the
        observation was ``stopped`` before its time. If it ``gives_up``, it ends early once every server has
        failed for ``HOPELESS_SECONDS`` from the begin, or in a way that waiting cannot cure; if it
        ``needs_all``, once one has, or shows no engine.
        """
        self._began, self._ended = self._clock.monotonic(), None
        reading = asyncio.ensure_future(self._baselines.read_due())
        pollers = [monitor.poller() for monitor in self._monitors]
        polling = [asyncio.ensure_future(_poll_on(poller)) for poller in pollers]
        ending: list[asyncio.Task[Any]] = [asyncio.ensure_future(end)]
        if gives_up:
            ending.append(asyncio.ensure_future(self._hopeless(pollers, needs_all=needs_all)))
        try:
            done, _ = await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
            self._ended = self._clock.monotonic()
            for each in done:
                each.result()
            await cancel([*ending, *polling])
            # An unreachable server would delay the end by its timeout.
            await asyncio.gather(*(poller.poll() for poller in pollers if poller.record.up))
            await asyncio.wait([reading], timeout=0.0 if stopped() else BASELINE_SECONDS)
            self._baselines.give_up()
        finally:
            self._ended = self._clock.monotonic() if self._ended is None else self._ended
            await cancel([*ending, *polling, reading])

    def replay(self, polls: Iterable[RawPoll], clock: RecordingClock) -> None:
        """Take recorded polls in place of ``poll``; ``clock`` is the clock of the observation."""
        self._began = clock.monotonic()
        deque(replay(polls, self.fleet, clock), maxlen=0)
        self._ended = clock.monotonic()

    def observed(self) -> ObservationView:
        """Return the result up to now, or up to the end."""
        present = self._clock.monotonic()
        now = present if self._ended is None else self._ended
        # As long as planned, or the whole seconds of an observation that ended early.
        seconds = min(self._max_window, float(max(1, round(now - self._began))))
        return observation_of(
            self._clock.wall() - (present - now),
            seconds,
            (engine for monitor in self._monitors for engine in monitor.snapshots_over(seconds, now)),
            self.targets(),
            events=self.events.kept,
            errors=self.fleet.shared.errors,
        )

    def targets(self) -> tuple[TargetView, ...]:
        """Return every server and the result of its newest poll."""
        return tuple(self.fleet.each("report", lambda monitor: target_view(monitor.status())))

    async def close(self) -> None:
        """Close every connection."""
        for monitor in self._monitors:
            await monitor.close()

    async def _hopeless(self, pollers: Sequence[Poller], *, needs_all: bool) -> None:
        """Return when every server has failed since the begin, or one if all are needed; else never."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + _LOOK_SECONDS)
            is_late = self._clock.monotonic() >= self._began + HOPELESS_SECONDS
            failed = [
                record.last_success is None and bool(is_late or _HOPELESS.fullmatch(record.failure))
                if record.up is False
                else needs_all and is_late and record.up is True and not record.engines
                for record in (poller.record for poller in pollers)
            ]
            if any(failed) if needs_all else all(failed):
                return


async def _poll_on(poller: Poller) -> None:
    """Poll immediately to begin the window, and then on schedule."""
    await poller.poll()
    await poller.run()


async def watch(config: Config, seconds: float, clock: Clock) -> ObservationView:
    """Observe the targets of ``config``, made by ``observed_config``, for ``seconds``.

    Unreachable servers raise no exception: their rows in ``targets`` have the reason.
    """
    observation = Observation(config, clock)
    try:
        await observation.poll(clock.sleep_until(clock.monotonic() + seconds))
        return observation.observed()
    finally:
        await observation.close()


def observe(*targets: str | Mapping[str, Any], seconds: float = DEFAULT_SECONDS) -> ObservationView:
    """Observe servers for ``seconds`` and return the result; if none answers for 10 s, end early.

    Within a running event loop, as in a notebook, await ``asyncio.to_thread(observe, …)`` instead.

    Args:
        targets: Addresses such as ``localhost:8000``, or mappings with the keys of a target in a
            configuration: ``{"url": …, "cost": {"draft_cost_ratio": 0.05}}``.
        seconds: Length of the observation.

    Raises:
        ConfigError: A target is invalid. An unreachable server raises nothing: ``targets`` of the result
            have the reason.
    """
    if not targets or seconds <= 0:
        raise ValueError("give the address of a server at least, and more than 0 seconds")
    if not structlog.is_configured():
        configure_log("critical", "logfmt")  # structlog would print every event
    return asyncio.run(watch(observed_config(targets, seconds), seconds, Clock()))


def observed_config(
    targets: Sequence[str | Mapping[str, Any]],
    seconds: float,
    *,
    path: Path | None = None,
    environ: Mapping[str, str] = _NOTHING,
    overrides: Mapping[str, object] = _NOTHING,
    as_exporter: bool = False,
) -> Config:
    """Return the configuration of an observation.

    Args:
        targets: Addresses, see ``completed_url``, or keys of ``targets`` in a configuration, ``url`` at
            least; empty for the targets of the file.
        seconds: Length of the observation; 0 if it is unknown.
        path: A configuration file. Its windows and intervals are not used, unless ``as_exporter``.
        environ: Values of ``${NAME}`` in the file.
        overrides: Values by the dotted path of their key, as for ``load``.
        as_exporter: Use the windows and intervals of an exporter with this file.

    Raises:
        ConfigError: The configuration has mistakes; all are listed.
    """
    values = dict(overrides) if as_exporter else {**_own_values(seconds, overrides), **overrides}
    if targets:
        values["targets"] = _named(
            [{"url": each} if isinstance(each, str) else dict(each) for each in targets]
        )
    checks = (credential_mistakes,)
    return load(path, environ=environ, overrides=values, checks=checks, read_rates=read_rates)


def _own_values(seconds: float, overrides: Mapping[str, object]) -> dict[str, object]:
    """Return windows and intervals that suit the length of an observation."""
    longest = seconds or MAX_WINDOW
    interval = seconds_of(overrides.get("poll.interval"))
    recent = RECENT if MIN_POLLS * interval <= RECENT else longest
    return {
        "windows": sorted({min(recent, longest), longest}),
        "poll.interval": min(1.0, longest / MIN_POLLS),
        "poll.histogram_interval": max(min(10.0, longest / 3), interval),
    }


def seconds_of(interval: object) -> float:
    """Return the seconds of a flag's duration; 0 for an absent or invalid one."""
    try:
        return parse_duration(str(interval))
    except ValueError:
        return 0.0


def completed_url(text: str) -> str:
    """Complete an address: ``localhost:8000`` and ``:8000`` become http URLs."""
    if "://" in text or not text:
        return text
    return f"http://localhost{text}" if text.startswith(":") else f"http://{text}"


def _named(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Complete the addresses; add the path to the names of several pages on one host."""
    for target in targets:
        if isinstance(target.get("url"), str):
            target["url"] = completed_url(target["url"])
    places = [_host_and_path(str(target.get("url", ""))) for target in targets]
    hosts = Counter(host for host, _ in places)
    for target, (host, path) in zip(targets, places, strict=True):
        if hosts[host] > 1 and path:
            target.setdefault("name", f"{host}{path}")
    return targets


def _host_and_path(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        host = "/".join(filter(None, (parts.netloc, model_of(url))))
    except ValueError:
        return url, ""  # the configuration reports the invalid URL
    return host, parts.path
