"""Observe servers for a limited time without serving anything.

Stages and formulas are those of the exporter. Only the window differs: it is as long as the observation, so
that the evaluation covers all of it and nothing before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.discovery.target import Target, static_targets
from spec_decode_exporter.history.history_baselines import HistoryBaselines
from spec_decode_exporter.history.replay import RecordingClock, replay
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.monitor.event_log import EventLog, run_name
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.state import Remembered
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.reports.observe.observation_config import DEFAULT_SECONDS, observed_config
from spec_decode_exporter.scrape.poll_record import RawPoll, Recorded
from spec_decode_exporter.scrape.poller import Poller
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import (
    EventView,
    ObservationView,
    TargetView,
    event_view,
    target_view,
)

BASELINE_SECONDS: Final = 60.0
"""Seconds that an observation waits after its end for a baseline that is still being read."""

LabelledSnapshots = tuple[tuple[Mapping[str, str], EngineSnapshot], ...]
"""Labels and snapshot of each engine."""


@dataclass(frozen=True, slots=True)
class ObservedFleet:
    """Result of an observation up to one moment."""

    time: float
    """Unix time of that moment."""
    seconds: float
    """Length of the observation and of its evaluated window."""
    engines: LabelledSnapshots
    """Engines; the last window of each is the whole observation."""
    targets: tuple[TargetView, ...]
    """All servers, unreachable ones included."""
    events: tuple[EventView, ...]
    """Events of the observation, oldest first."""

    errors: Isolation = field(default_factory=Isolation, repr=False, compare=False)
    """Omits engines that cannot be shown."""

    def view(self) -> ObservationView:
        """Return the JSON models; an engine that cannot be shown has only its id, in ``targets``."""
        views = self.errors.each(
            "report", self.engines, lambda engine: engine[0], lambda engine: _engine_view(*engine)
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
    """Polls servers; ``observed`` returns the result at any time."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        targets: Sequence[Target] | None = None,
        recorded: Recorded | None = None,
        *,
        reads_baselines: bool = True,
    ) -> None:
        """Prepare to ``poll``.

        Args:
            config: See ``observed_config``.
            clock: Clock.
            targets: Targets; by default the static ones of ``config``.
            recorded: Takes each raw poll, to record it.
            reads_baselines: Read the baselines of the configuration, which verdicts need.
        """
        self._clock = clock
        self._max_window = config.windows[-1]
        self.events = EventLog(run_name(clock.wall()), clock.monotonic)
        """Events of the observation."""
        self._errors = errors = Isolation(clock.monotonic)
        remembered = Remembered()
        self.fleet = Fleet(config, clock, remembered, self.events, errors, spread=False, recorded=recorded)
        """Monitors of the targets."""
        self.fleet.watch(static_targets(config) if targets is None else targets)
        self._monitors = list(self.fleet)
        with_baselines = self._monitors if reads_baselines else ()
        self._baselines = HistoryBaselines(with_baselines, lambda: config, remembered, clock, errors=errors)
        self._began = clock.monotonic()
        self._ended: float | None = self._began

    async def poll(self, end: Awaitable[object], *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Poll every server until ``end`` is done, and once more to complete the window.

        Configured baselines are read at the same time. They are waited for after the end, unless the
        observation was ``stopped`` before its time.
        """
        self._began = self._clock.monotonic()
        self._ended = None
        async with self._reading_baselines(stopped):
            pollers = [monitor.poller() for monitor in self._monitors]
            polling = [asyncio.ensure_future(_poll_on(poller)) for poller in pollers]
            try:
                await end
            finally:
                self._ended = self._clock.monotonic()
                await cancel(polling)
            # An unreachable server would delay the end by its timeout.
            await asyncio.gather(*(poller.poll() for poller in pollers if poller.record.up))

    def replay(self, polls: Iterable[RawPoll], clock: RecordingClock) -> None:
        """Take recorded polls in place of ``poll``; ``clock`` is the clock of the observation."""
        self._began = clock.monotonic()
        for _ in replay(polls, self.fleet, clock):
            pass
        self._ended = clock.monotonic()

    def observed(self) -> ObservedFleet:
        """Return the result up to now, or up to the end."""
        present = self._clock.monotonic()
        now = present if self._ended is None else self._ended
        seconds = self._length(now)
        return ObservedFleet(
            self._clock.wall() - (present - now),
            seconds,
            tuple(engine for monitor in self._monitors for engine in monitor.snapshots_over(seconds, now)),
            tuple(self._errors.each("report", self._monitors, lambda monitor: monitor.item, _target_view)),
            tuple(map(event_view, self.events.since().events)),
            self._errors,
        )

    async def close(self) -> None:
        """Close every connection."""
        for monitor in self._monitors:
            await monitor.close()

    @asynccontextmanager
    async def _reading_baselines(self, stopped: Callable[[], bool]) -> AsyncIterator[None]:
        """Read the baselines of all targets beside the polls; wait a while for those that take longer."""
        reading = asyncio.ensure_future(self._baselines.read_due())
        try:
            yield
            await asyncio.wait([reading], timeout=0.0 if stopped() else BASELINE_SECONDS)
            self._baselines.give_up()
        finally:
            await cancel([reading])

    def _length(self, now: float) -> float:
        """Return the window's length: as planned, or the whole seconds of an observation that ended early."""
        return min(self._max_window, float(max(1, round(now - self._began))))


def _engine_view(labels: Mapping[str, str], snapshot: EngineSnapshot) -> EngineView:
    """Return the document of an engine. Compute all of it here, where an internal error is isolated."""
    view = EngineView(labels=labels, snapshot=snapshot)
    view.read_all()
    return view


def _target_view(monitor: TargetMonitor) -> TargetView:
    return target_view(monitor.status())


async def watch(config: Config, seconds: float, clock: Clock) -> ObservedFleet:
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
    """Observe servers for ``seconds`` and return the result.

    Within a running event loop, as in a notebook, await ``observe_async`` instead.

    Args:
        targets: Addresses such as ``localhost:8000``, or mappings with the keys of a target in a
            configuration: ``{"url": …, "cost": {"draft_cost_ratio": 0.05}}``.
        seconds: Length of the observation.

    Raises:
        ConfigError: A target is invalid. An unreachable server raises nothing: ``targets`` of the result
            have the reason.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(observe_async(*targets, seconds=seconds))
    raise RuntimeError("an event loop runs here: use `await spec_decode_exporter.observe_async(…)`")


async def observe_async(
    *targets: str | Mapping[str, Any], seconds: float = DEFAULT_SECONDS
) -> ObservationView:
    """Observe servers within a running event loop; see ``observe``."""
    if not targets or seconds <= 0:
        raise ValueError("give the address of a server at least, and more than 0 seconds")
    _check_types(targets)
    if not structlog.is_configured():
        configure_log("critical", "logfmt")  # structlog would print every event
    try:
        config = observed_config(targets, seconds)
    except ConfigError as error:
        raise ConfigError(
            replace(each, place="spec_decode_exporter.observe") for each in error.problems
        ) from None
    return (await watch(config, seconds, SystemClock())).view()


def _check_types(targets: Sequence[object]) -> None:
    for target in targets:
        if not isinstance(target, str | Mapping):
            raise TypeError(f"a target is an address or a mapping with the keys of one, not {target!r}")


async def _poll_on(poller: Poller) -> None:
    """Poll immediately to begin the window, and then on schedule."""
    await poller.poll()
    await poller.run()
