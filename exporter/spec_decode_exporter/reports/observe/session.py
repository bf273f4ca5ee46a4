"""Servers that are watched for a while without anything being served.

The stages are those of the exporter, and so is every formula. Only the window differs: it is as long as the
observation itself, which is judged as one whole window, by what was seen in it and by nothing before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from spec_decode_exporter.config.errors import ConfigError
from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.units import parse_duration
from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.discovery.target import static_targets
from spec_decode_exporter.monitor.engine_monitor import EngineSnapshot
from spec_decode_exporter.monitor.event_log import EventLog, run_name
from spec_decode_exporter.monitor.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.views.engine_view import engine_view
from spec_decode_exporter.views.models import EventView, ObservationView, TargetView

LONGEST: Final = 3600.0
"""Seconds that are looked back on at most where an observation has no end."""

RECENT: Final = 30.0
"""Seconds of the second window that a longer observation has, for what has changed meanwhile."""

LEAST_POLLS: Final = 6
"""Of a server in an observation."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


Found = tuple[tuple[Mapping[str, str], EngineSnapshot], ...]
"""The labels of engines, and what there is to say of each."""


@dataclass(frozen=True, slots=True)
class ObservedFleet:
    """What was seen up to one moment."""

    time: float
    """That moment, Unix time."""
    seconds: float
    """The length of the observation, and of the window that everything is judged by."""
    engines: Found
    """Each engine's labels and findings; the last of its windows is the whole observation."""
    targets: tuple[TargetView, ...]
    """Every server, those that could not be reached too."""
    events: tuple[EventView, ...]
    """What happened meanwhile, oldest first."""

    errors: InternalErrors = field(default_factory=InternalErrors, repr=False, compare=False)
    """Omits engines that cannot be shown."""

    def view(self) -> ObservationView:
        """Return it as JSON and programs have it; of an engine that fails only ``targets`` has the id."""
        views = self.errors.each(
            "report", self.engines, lambda engine: engine[0], lambda engine: engine_view(*engine)
        )
        return ObservationView(
            time=self.time,
            version=__version__,
            engines=tuple(views),
            seconds=self.seconds,
            targets=self.targets,
            events=self.events,
        )


class Observation:
    """Watches servers; what was seen can be asked for at any time."""

    def __init__(self, config: Config, clock: Clock) -> None:
        """Be ready to ``poll`` the targets that ``config`` names one by one; see ``observed_config``."""
        self._clock = clock
        self._longest = config.windows[-1]
        self._events = EventLog(run_name(clock.wall()))
        self._errors = errors = InternalErrors(clock.monotonic)
        more = config, clock, RememberedEngines(), self._events
        self._watches = [
            TargetMonitor(target, *more, spread=False, errors=errors) for target in static_targets(config)
        ]
        self._began = clock.monotonic()
        self._ended: float | None = self._began

    async def poll(self, end: Awaitable[object]) -> None:
        """Poll every server until ``end`` is done, and once more then, so that the window is whole."""
        self._began = self._clock.monotonic()
        self._ended = None
        polling = [asyncio.ensure_future(_poll_on(watch)) for watch in self._watches]
        try:
            await end
        finally:
            self._ended = self._clock.monotonic()
            await _cancel(polling)
        # A server that does not answer is not waited for again.
        await asyncio.gather(*(watch.poll() for watch in self._watches if watch.status().up))

    def observed(self) -> ObservedFleet:
        """Return what was seen up to now, or up to the end."""
        now = self._clock.monotonic() if self._ended is None else self._ended
        seconds = self._length(now)
        return ObservedFleet(
            self._clock.wall(),
            seconds,
            tuple(found for watch in self._watches for found in watch.findings_over(seconds, now)),
            tuple(self._errors.each("report", self._watches, lambda watch: watch.item, TargetMonitor.view)),
            self._events.since().events,
            self._errors,
        )

    async def close(self) -> None:
        """Close every connection."""
        for watch in self._watches:
            await watch.close()

    def _length(self, now: float) -> float:
        """Return the window's length: as long as planned, or whole seconds of one that ended before."""
        return min(self._longest, float(max(1, round(now - self._began))))


async def watch(config: Config, seconds: float, clock: Clock) -> ObservedFleet:
    """Watch the targets of ``config``, which ``observed_config`` made, for so many seconds.

    It raises nothing where servers cannot be reached: their rows say why.
    """
    observation = Observation(config, clock)
    try:
        await observation.poll(clock.sleep_until(clock.monotonic() + seconds))
        return observation.observed()
    finally:
        await observation.close()


def observe(*targets: str | Mapping[str, Any], seconds: float = 30.0) -> ObservationView:
    """Watch servers for so many seconds and return what was seen.

    Not while an event loop runs, as in a notebook: await ``observe_async`` there.

    Args:
        targets: Addresses such as ``localhost:8000``, or mappings with the keys that a target has in a
            configuration: ``{"url": …, "cost": {"draft_cost_ratio": 0.05}}``.
        seconds: For how long.

    Raises:
        ConfigError: A target cannot be as it is given. A server that cannot be reached raises nothing:
            ``targets`` of the result say why.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(observe_async(*targets, seconds=seconds))
    raise RuntimeError("an event loop runs here: use `await spec_decode_exporter.observe_async(…)`")


async def observe_async(*targets: str | Mapping[str, Any], seconds: float = 30.0) -> ObservationView:
    """Do the same as ``observe`` where an event loop runs."""
    if not targets or seconds <= 0:
        raise ValueError("give the address of a server at least, and more than 0 seconds")
    _refuse_others(targets)
    if not structlog.is_configured():
        configure_log("critical", "logfmt")  # structlog would print what happens
    try:
        config = observed_config(targets, seconds)
    except ConfigError as error:
        raise ConfigError(
            replace(each, place="spec_decode_exporter.observe") for each in error.problems
        ) from None
    return (await watch(config, seconds, SystemClock())).view()


def _refuse_others(targets: Sequence[object]) -> None:
    for target in targets:
        if not isinstance(target, str | Mapping):
            raise TypeError(f"a target is an address or a mapping with the keys of one, not {target!r}")


def observed_config(
    targets: Sequence[str | Mapping[str, Any]],
    seconds: float,
    *,
    path: Path | None = None,
    environ: Mapping[str, str] = _NOTHING,
    overrides: Mapping[str, object] = _NOTHING,
) -> Config:
    """Return the configuration of an observation.

    Args:
        targets: Addresses, see ``page_url``, or keys of ``targets`` in a configuration, ``url`` at least;
            none for those that the file names.
        seconds: How long it takes; 0 where that is not known.
        path: A configuration file. Its windows and intervals do not matter.
        environ: Where ``${NAME}`` in the file is looked up.
        overrides: Values by the dotted path of their key, as for ``load``.

    Raises:
        ConfigError: It has mistakes; all are listed.
    """
    longest = seconds or LONGEST
    interval = seconds_of(overrides.get("poll.interval"))
    recent = RECENT if LEAST_POLLS * interval <= RECENT else longest
    given: dict[str, object] = {
        "windows": sorted({min(recent, longest), longest}),
        "poll.interval": min(1.0, longest / LEAST_POLLS),
        "poll.histogram_interval": max(min(10.0, longest / 3), interval),
        **overrides,
    }
    if targets:
        given["targets"] = _named(
            [{"url": each} if isinstance(each, str) else dict(each) for each in targets]
        )
    return load(path, environ=environ, overrides=given)


def seconds_of(interval: object) -> float:
    """Return an interval as a flag gives it, in seconds; 0 for none, or one that is no duration."""
    try:
        return parse_duration(str(interval))
    except ValueError:
        return 0.0


def page_url(text: str) -> str:
    """Return an address with what people leave out of it: ``localhost:8000`` is meant to be http."""
    if "://" in text or not text:
        return text
    return f"http://localhost{text}" if text.startswith(":") else f"http://{text}"


def _named(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Complete the addresses, and name those pages of one host after their paths that are several."""
    for target in targets:
        if isinstance(target.get("url"), str):
            target["url"] = page_url(target["url"])
    places = [_place(str(target.get("url", ""))) for target in targets]
    hosts = Counter(host for host, _ in places)
    for target, (host, path) in zip(targets, places, strict=True):
        if hosts[host] > 1 and path:
            target.setdefault("name", f"{host}{path}")
    return targets


def _place(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, ""  # the configuration says what is wrong with it
    return parts.netloc, parts.path


async def _poll_on(watch: TargetMonitor) -> None:
    """Poll at once, for the window to begin, and then on the beat."""
    await watch.poll()
    await watch.run()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
