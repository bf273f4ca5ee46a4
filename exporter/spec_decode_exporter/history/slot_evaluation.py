"""Evaluation of the slots of a history: that of a live window, with the costs of the time around the slot.

A live exporter knows only the past. A history also knows plain steps that came later, so each slot is
evaluated with the steps of its own era and with the nearest period without speculation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spec_decode_exporter.analysis.assessment import Assessment, assess
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import NO_SPECULATION
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions, EvaluationInputs
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.typical_costs import fixed_tokens, undrafted_steps_are_plain
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.server_load import drafting_requests
from spec_decode_exporter.history.engine_slots import PlainPeriods, PlainTimesOfPeriod, Slot
from spec_decode_exporter.monitor.step_times import PlainTimes, costs_by_load
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import NANO

COST_AFTER: Final = 6 * 3600.0
"""Seconds after a slot up to which drafting steps count for its cost: those learned then have a half-life of
12 hours, so they surround the slot."""


class Outcome(StrEnum):
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
class SlotResult:
    """A slot and what it says about speculation, without its increments."""

    begin: float
    """Unix time."""
    end: float
    seconds: float
    """Covered seconds."""
    outcome: Outcome
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
    """Accepted tokens by position."""
    running_requests: float | None
    """Mean load while drafting."""
    first_token_seconds: float | None
    """Mean time to first token."""
    step_seconds: float | None
    """Mean time of a decode step."""
    speedup: Estimate | None
    """Speed-up of decoding with its bounds; None with too few data."""
    acceptance_length: Estimate | None
    cost_source: CostSource | None
    """Source of the cost; None if it is unknown and the speed-up is for the possible costs of any drafter."""
    speedups: Mapping[int, float]
    """Expected speed-up by number of draft tokens; 0 tokens are no speculation."""


def evaluated(slots: Sequence[Slot], periods: PlainPeriods, assumptions: Assumptions) -> Iterator[SlotResult]:
    """Yield each slot of an engine with its evaluation; ``slots`` are in the order of time."""
    costs: dict[tuple[int, int], tuple[MeasuredCost, ...]] = {}
    ends = [slot.end for slot in slots]
    for slot in slots:
        source = _cost_source(slots, ends, slot)
        period = periods.nearest(slot.end)
        key = source, id(period)
        if key not in costs:
            costs[key] = _costs(slots[source], period, assumptions.speculation.method, slot.end)
        yield _evaluated(slot, _inputs(slot, costs[key], period, assumptions))


def last_inputs(slots: Sequence[Slot], periods: PlainPeriods, assumptions: Assumptions) -> EvaluationInputs:
    """Return what is known of an engine at the end of its last slot, with the costs learned until then."""
    last = slots[-1]
    period = periods.nearest(last.end)
    costs = _costs(last, period, assumptions.speculation.method, last.end)
    return _inputs(last, costs, period, assumptions)


def _cost_source(slots: Sequence[Slot], ends: Sequence[float], slot: Slot) -> int:
    """Return the place of the newest slot of the same era within ``COST_AFTER``."""
    place = bisect_right(ends, slot.end + COST_AFTER) - 1
    while slots[place].era != slot.era:
        place -= 1
    return place


def _costs(
    slot: Slot, period: PlainTimesOfPeriod | None, method: str, time: float
) -> tuple[MeasuredCost, ...]:
    plain = [PlainTimes(slot.plain, CostSource.MEASURED)]
    if period is not None:
        plain.append(period.at(time))
    return costs_by_load(
        lambda: slot.drafting,
        plain,
        fixed_tokens(method),
        every_step_pays=not undrafted_steps_are_plain(method),
    )


def _inputs(
    slot: Slot,
    costs: Sequence[MeasuredCost],
    period: PlainTimesOfPeriod | None,
    assumptions: Assumptions,
) -> EvaluationInputs:
    """Return the inputs of a slot's evaluation besides its window."""
    return EvaluationInputs(
        assumptions=assumptions,
        latencies={},
        broken=frozenset(),
        speculates=slot.speculates,
        drafted_before=slot.drafted_before,
        costs=costs,
        request_baseline=period.period.request if period else None,
        wall=slot.end,
    )


def _evaluated(slot: Slot, inputs: EvaluationInputs) -> SlotResult:
    assessment = assess((slot.window,), inputs)
    window, its = slot.window, assessment.evaluated
    found = SlotResult(
        slot.begin,
        slot.end,
        window.seconds,
        _outcome(slot, assessment),
        slot.tokens if slot.speculates else 0,
        slot.era,
        slot.process,
        window[Counter.GENERATION_TOKENS] or 0,
        None if (spent := window[Counter.DECODE_NANOSECONDS]) is None else spent / NANO,
        window[Counter.DRAFTS] or 0,
        window[Counter.DRAFT_TOKENS] or 0,
        window[Counter.ACCEPTED_TOKENS] or 0,
        window.positions,
        drafting_requests(window),
        ratio(window[Counter.FIRST_TOKEN_NANOSECONDS], (window[Counter.FIRST_TOKENS] or 0) * NANO),
        ratio(window[Counter.DECODE_NANOSECONDS], (window[Counter.DECODE_STEPS] or 0) * NANO),
        _speedup(assessment) if window[Counter.DRAFTS] else None,
        its.bounds.acceptance_length,
        its.cost.source if its.cost else None,
        {depth.tokens: depth.speedup for depth in (NO_SPECULATION, *assessment.depths)},
    )
    window.forget()
    return found


def _speedup(assessment: Assessment) -> Estimate | None:
    """Return the speed-up; None without bounds, or with too few data for a verdict."""
    speedup = assessment.evaluated.result.speedup
    if speedup is None or not speedup.is_bounded or assessment.verdict is Verdict.INSUFFICIENT:
        return None
    return speedup.estimate


def _outcome(slot: Slot, assessment: Assessment) -> Outcome:
    window = slot.window
    if not window[Counter.DRAFTS]:
        worked = window[Counter.DECODE_STEPS] or window[Counter.GENERATION_TOKENS]
        return Outcome.PLAIN if worked else Outcome.IDLE
    speedup = _speedup(assessment)
    if speedup is None:
        return Outcome.UNCLEAR
    even = assessment.inputs.assumptions.policy.speedup.harmful
    request = assessment.evaluated.result.request
    if speedup.upper < even or (request is not None and request.is_slower):
        return Outcome.HURT
    return Outcome.PAID if speedup.lower >= even else Outcome.UNCLEAR
