"""History of one engine in slots of time: the live classes, driven by the clock of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.learned.baseline import SAME_DAY_SECONDS, Baseline, PlainPeriod
from spec_decode_exporter.learned.step_cost import PlainSteps
from spec_decode_exporter.learned.steps import StepTimes
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import Sample
from spec_decode_exporter.window.history import GONE_POLLS, GONE_SECONDS, Window
from spec_decode_exporter.window.poll import step


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """Event of an engine."""

    time: float
    """Unix time of the scrape that shows it."""
    event: Event


@dataclass(frozen=True, slots=True)
class Slot:
    """An engine between two Unix times, in one process of its server."""

    begin: float
    end: float
    window: Window
    speculates: bool
    has_drafted: bool
    tokens: int
    """K; 0 if unknown or without speculation."""
    era: int
    """Number of the window resets before: increments of two eras are never mixed."""
    process: int
    """Number of the counter resets before."""
    steps: tuple[StepTimes, ...]
    """Steps of polls with and without drafts, as learned up to its end."""


@dataclass(frozen=True, slots=True)
class KnownPeriod:
    """Plain steps and requests of a period without speculation."""

    steps: StepTimes
    period: PlainPeriod

    def at(self, time: float) -> PlainSteps:
        """Return the plain steps for a Unix time; those of another day are less certain."""
        begin, end = self.period.end - self.period.seconds, self.period.end
        away = max(begin - time, time - end, 0.0)
        return PlainSteps(CostSource.BASELINE, (self.steps,), away > SAME_DAY_SECONDS)


class PlainPeriods:
    """Periods in which a target served a model without speculation."""

    def __init__(self) -> None:
        self.baseline = Baseline()
        """Shared by the engines of the model."""
        self._known: list[KnownPeriod] = []
        self._is_open = False

    def update(self, wall: float, *, speculates: bool) -> None:
        """Keep the present period, or end it."""
        if speculates:
            self._is_open = False
            return
        kept, period = self.baseline.kept, self.baseline.period(wall)
        if kept is None or period is None:
            return
        found = KnownPeriod(StepTimes(dict(kept.steps.places)), period)
        if self._is_open:
            self._known[-1] = found
        else:
            self._known.append(found)
        self._is_open = True

    def nearest(self, time: float) -> KnownPeriod | None:
        """Return the period that is nearest to a Unix time."""
        return min(self._known, key=lambda each: abs(each.period.end - time), default=None)

    def all(self) -> Sequence[KnownPeriod]:
        """Return all periods, oldest first."""
        return self._known


class EngineSlots:
    """Divides the history of one engine into slots."""

    def __init__(
        self,
        assumptions: Assumptions,
        periods: PlainPeriods,
        slot_seconds: float,
        interval: float,
        *,
        always_counts_drafts: bool = False,
    ) -> None:
        """Begin before the first sample.

        Args:
            assumptions: Knowledge of the engine besides its counters.
            periods: Periods without speculation of its model on its target.
            slot_seconds: Length of a slot; slots begin at multiples of it in Unix time.
            interval: Seconds between two scrapes.
            always_counts_drafts: The server has counters of drafts without speculation too.
        """
        self.slots: list[Slot] = []
        self.events: list[TimedEvent] = []
        self.scrapes = 0
        self._periods = periods
        self._seconds = slot_seconds
        self._interval = interval
        self._monitor = EngineMonitor((2 * slot_seconds,), assumptions, periods.baseline)
        self._monitor.history.always_counts_drafts = always_counts_drafts
        self._since: float | None = None
        self._process = 0

    def observe(self, sample: Sample, wall: float) -> None:
        """Add the sample of a scrape at a Unix time, which is later than that of the last one."""
        history = self._monitor.history
        last = history.last_seen if self._since is not None else None
        is_gap = last is not None and wall - last > max(GONE_POLLS * self._interval, GONE_SECONDS)
        is_next = last is None or last // self._seconds != wall // self._seconds
        is_reset = step(history.poll, sample, wall, wall).reset is not None
        if is_next or is_gap or is_reset:
            self.close()
            self._since = wall if last is None or is_gap else last
            self._process += is_reset
        self.scrapes += 1
        events = self._monitor.observe(sample, wall, wall, self._interval, self._seconds)
        self.events += [TimedEvent(wall, event) for event in events]

    def close(self) -> None:
        """End the present slot, if it has begun."""
        history, since = self._monitor.history, self._since
        if since is None or history.last_seen <= since:
            return
        window = history.window(history.last_seen - since)
        if not window.polls:
            return
        self._periods.update(history.wall, speculates=history.speculates)
        learned = self._monitor.learned
        self.slots.append(
            Slot(
                since,
                history.wall,
                replace(window, increments=window.increments.detached()),
                history.speculates,
                history.has_drafted,
                history.tokens,
                history.window_resets,
                self._process,
                tuple(StepTimes(dict(each.places)) for each in (learned.drafting, learned.plain)),
            )
        )
