"""History of one engine in slots of time: the live classes, driven by the clock of the samples.

A live exporter knows only the past. A history also knows plain steps that came later, so each slot is
evaluated with the steps of its own era and with the nearest period without speculation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from spec_decode_exporter.analysis.depth import NO_SPECULATION
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, Drafting, Knowledge
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.costs.baseline import SAME_DAY_SECONDS, Baseline, BaselineSummary
from spec_decode_exporter.costs.cost import CostByLoad, CostSource
from spec_decode_exporter.costs.measured_cost import StepsWithoutSpeculation, costs
from spec_decode_exporter.costs.steps import StepTimes
from spec_decode_exporter.figures.estimate import Estimate, ratio
from spec_decode_exporter.figures.window_figures import seconds
from spec_decode_exporter.history.query_api import HistoryError
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import Sample
from spec_decode_exporter.window.history import GONE_POLLS, GONE_SECONDS, NANO, Window
from spec_decode_exporter.window.poll import step

COST_AFTER: Final = 6 * 3600.0
"""Seconds after a slot up to which drafting steps count for its cost: those learned then have a half-life of
12 hours, so they surround the slot."""
MAX_SLOTS: Final = 20_000
"""Maximum slots of an engine: twice those of 400 days. Each reset of a counter begins one."""


TimedEvent = tuple[float, Event]
"""Event, and the Unix time of the scrape that shows it."""


class SlotOutcome(StrEnum):
    """Benefit of speculation in one slot."""

    PAID = "paid"
    """Faster than without speculation: the lower bound of the speed-up is at least 1."""
    HURT = "hurt"
    """Slower than without: the upper bound of the speed-up is below 1."""
    UNCLEAR = "unclear"
    """The bounds include 1, or there are too few data for bounds."""
    PLAIN = "plain"
    """The engine decoded without speculation."""
    IDLE = "idle"
    """The engine decoded nothing."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An engine between two Unix times, in one process of its server."""

    begin: float
    end: float
    window: Window
    drafting: Drafting
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
class SlotResult:
    """A slot and what it says about speculation, without its increments."""

    begin: float
    """Unix time."""
    end: float
    seconds: float
    """Covered seconds."""
    outcome: SlotOutcome
    tokens: int
    """K; 0 without speculation."""
    era: int
    """Number of the changes of K before."""
    process: int
    """Number of the restarts before."""
    generated: int
    """Generation tokens."""
    decode_seconds: float | None
    """Decode time, summed over requests; None if unknown."""
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    positions: Sequence[int]
    running_requests: float | None
    """Mean load while drafting."""
    first_token_seconds: float | None
    step_seconds: float | None
    speedup: Estimate | None
    """Speed-up of decoding with its bounds; None with too few data."""
    acceptance_length: Estimate | None
    cost_source: CostSource | None
    """Source of the cost; None if it is unknown and the speed-up is for the possible costs of any drafter."""
    speedups: Mapping[int, float]
    """Expected speed-up by number of draft tokens; 0 tokens are no speculation."""


@dataclass(frozen=True, slots=True)
class KnownPeriod:
    """Plain steps and requests of a period without speculation."""

    steps: StepTimes
    period: BaselineSummary

    def at(self, time: float) -> StepsWithoutSpeculation:
        """Return the plain steps for a Unix time; those of another day are less certain."""
        begin, end = self.period.end - self.period.seconds, self.period.end
        away = max(begin - time, time - end, 0.0)
        return StepsWithoutSpeculation(CostSource.BASELINE, (self.steps,), away > SAME_DAY_SECONDS)


class PlainPeriods:
    """Periods in which a target served a model without speculation, beside those of its group."""

    def __init__(self, group: list[PlainPeriods]) -> None:
        group.append(self)
        self._group = group
        self.baseline = Baseline()
        """Shared by the engines of the model."""
        self.known: list[KnownPeriod] = []
        self._is_open = False

    def update(self, wall: float, *, speculates: bool) -> None:
        """Keep the present period, or end it."""
        kept, period = self.baseline.kept, self.baseline.summary(wall)
        if speculates:
            self._is_open = False
        elif kept is not None and period is not None:
            place = len(self.known) - self._is_open
            self.known[place:] = [KnownPeriod(StepTimes(dict(kept.steps.places)), period)]
            self._is_open = True

    def nearest(self, time: float) -> KnownPeriod | None:
        """Return the period that is nearest to a Unix time; one of another server ended before."""
        others = [each for its in self._group for each in its.known if each.period.end <= time]
        return min([*self.known, *others], key=lambda each: abs(each.period.end - time), default=None)


class EngineSlots:
    """Divides the history of one engine into slots, and evaluates them."""

    def __init__(
        self,
        assumptions: Assumptions,
        periods: PlainPeriods,
        slot_seconds: float,
        interval: float,
    ) -> None:
        """Begin before the first sample.

        ``periods`` are those of its model on its target. Slots begin at multiples of ``slot_seconds`` in Unix
        time. ``interval`` is the seconds between two scrapes.
        """
        self.slots: list[Slot] = []
        self.events: list[TimedEvent] = []
        self.scrapes = 0
        self.periods = periods
        self._assumptions = assumptions
        self._seconds = slot_seconds
        self._interval = interval
        self._monitor = EngineMonitor((2 * slot_seconds,), assumptions, periods.baseline)
        self._since: float | None = None
        self._process = 0

    def observe(self, sample: Sample, wall: float) -> None:
        """Add the sample of a later scrape at a Unix time; raise HistoryError if there are too many slots."""
        history = self._monitor.history
        last = history.last_seen if self._since is not None else None
        is_gap = last is not None and wall - last > max(GONE_POLLS * self._interval, GONE_SECONDS)
        is_next = last is None or last // self._seconds != wall // self._seconds
        is_reset = step(history.poll, sample, wall, wall).reset is not None
        if is_next or is_gap or is_reset:
            self.close()
            self._since = wall if last is None or is_gap else last
            self._process += is_reset
            if len(self.slots) > MAX_SLOTS:
                raise HistoryError(f"its counters fell {self._process} times: they are of several servers")
        self.scrapes += 1
        events = self._monitor.observe(sample, wall, wall, self._interval, self._seconds)
        self.events += [(wall, event) for event in events]

    def close(self) -> None:
        """End the present slot, if it has begun."""
        history, since = self._monitor.history, self._since
        window = None if since is None else history.window(history.last_seen - since)
        if since is None or window is None or history.last_seen <= since or not window.polls:
            return
        drafting = self._monitor.counters.drafting
        self.periods.update(history.wall, speculates=drafting is not Drafting.OFF)
        learned = self._monitor.learned
        self.slots.append(
            Slot(
                since,
                history.wall,
                replace(window, increments=window.increments.detached()),
                drafting,
                history.has_drafted,
                history.tokens,
                history.window_resets,
                self._process,
                tuple(StepTimes(dict(each.places)) for each in (learned.drafting, learned.plain)),
            )
        )

    def evaluated(self) -> Iterator[SlotResult]:
        """Yield each slot with its evaluation, in the order of time."""
        found: dict[tuple[int, int], tuple[CostByLoad, ...]] = {}
        ends = [slot.end for slot in self.slots]
        for slot in self.slots:
            source = bisect_right(ends, slot.end + COST_AFTER) - 1
            while self.slots[source].era != slot.era:
                source -= 1
            key = source, id(self.periods.nearest(slot.end))
            if key not in found:
                found[key] = self._costs(self.slots[source], slot.end)
            yield _result(slot, Evaluation((slot.window,), self._knowledge(slot, found[key])))

    def knowledge_at(self, slot: Slot) -> Knowledge:
        """Return the knowledge of the engine at the end of a slot, with the costs learned until then."""
        return self._knowledge(slot, self._costs(slot, slot.end))

    def _costs(self, slot: Slot, time: float) -> tuple[CostByLoad, ...]:
        """Return the costs by the steps that a slot knows, and by the plain period next to a Unix time."""
        period = self.periods.nearest(time)
        plain = () if period is None else (period.at(time),)
        method = self._assumptions.speculation.drafting_method
        return costs(slot.steps, plain, method.kind)

    def _knowledge(self, slot: Slot, measured: tuple[CostByLoad, ...]) -> Knowledge:
        assumptions, period = self._assumptions, self.periods.nearest(slot.end)
        return Knowledge(
            assumptions.speculation,
            assumptions.cost_model(measured),
            assumptions.policy,
            drafting=slot.drafting,
            has_drafted=slot.has_drafted,
            baseline=period.period if period else None,
            wall=slot.end,
        )


def _result(slot: Slot, evaluation: Evaluation) -> SlotResult:
    its, total = evaluation.verdict_window, slot.window.total
    return SlotResult(
        slot.begin,
        slot.end,
        slot.window.seconds,
        _outcome(evaluation),
        slot.tokens if slot.drafting is Drafting.DRAFTS else 0,
        slot.era,
        slot.process,
        total.generation_tokens or 0,
        seconds(total.decode_nanoseconds),
        total.drafts or 0,
        total.draft_tokens or 0,
        total.accepted_tokens or 0,
        slot.window.positions,
        its.drafting_requests,
        ratio(total.first_token_nanoseconds, (total.first_tokens or 0) * NANO),
        ratio(total.decode_nanoseconds, (total.decode_steps or 0) * NANO),
        _speedup(evaluation) if total.drafts else None,
        its.acceptance_length_bounds,
        its.cost.source if its.cost else None,
        {depth.tokens: depth.speedup for depth in (NO_SPECULATION, *evaluation.depths)},
    )


def _speedup(evaluation: Evaluation) -> Estimate | None:
    """Return the speed-up; None without bounds, or with too few data for a verdict."""
    speedup = evaluation.verdict_window.speedup_range
    if speedup is None or not speedup.is_bounded or evaluation.verdict is Verdict.INSUFFICIENT:
        return None
    return speedup.estimate


def _outcome(evaluation: Evaluation) -> SlotOutcome:
    its = evaluation.verdict_window
    if not its.total.drafts:
        worked = its.total.decode_steps or its.total.generation_tokens
        return SlotOutcome.PLAIN if worked else SlotOutcome.IDLE
    speedup = _speedup(evaluation)
    if speedup is None:
        return SlotOutcome.UNCLEAR
    even = evaluation.known.policy.speedup.harmful
    if speedup.upper < even or (its.request is not None and its.request.is_slower):
        return SlotOutcome.HURT
    return SlotOutcome.PAID if speedup.lower >= even else SlotOutcome.UNCLEAR
