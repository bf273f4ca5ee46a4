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

from spec_decode_exporter.analysis.cost import CostSource, Curve
from spec_decode_exporter.analysis.depth import NO_SPECULATION
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, Knowledge
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.figures.estimate import Estimate, ratio
from spec_decode_exporter.figures.window_figures import seconds
from spec_decode_exporter.history.engine_slots import KnownPeriod, PlainPeriods, Slot
from spec_decode_exporter.learned.step_cost import costs
from spec_decode_exporter.window.history import NANO

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
    found: dict[tuple[int, int], tuple[Curve, ...]] = {}
    ends = [slot.end for slot in slots]
    for slot in slots:
        source = _cost_source(slots, ends, slot)
        period = periods.nearest(slot.end)
        key = source, id(period)
        if key not in found:
            found[key] = _costs(slots[source], period, assumptions.speculation.method, slot.end)
        yield _evaluated(slot, _known(slot, found[key], period, assumptions))


def last_knowledge(slots: Sequence[Slot], periods: PlainPeriods, assumptions: Assumptions) -> Knowledge:
    """Return the knowledge of an engine at the end of its last slot, with the costs learned until then."""
    last = slots[-1]
    period = periods.nearest(last.end)
    found = _costs(last, period, assumptions.speculation.method, last.end)
    return _known(last, found, period, assumptions)


def _cost_source(slots: Sequence[Slot], ends: Sequence[float], slot: Slot) -> int:
    """Return the place of the newest slot of the same era within ``COST_AFTER``."""
    place = bisect_right(ends, slot.end + COST_AFTER) - 1
    while slots[place].era != slot.era:
        place -= 1
    return place


def _costs(slot: Slot, period: KnownPeriod | None, method: str, time: float) -> tuple[Curve, ...]:
    return costs(slot.steps, () if period is None else (period.at(time),), method)


def _known(
    slot: Slot, measured: tuple[Curve, ...], period: KnownPeriod | None, assumptions: Assumptions
) -> Knowledge:
    """Return the knowledge of an engine in a slot."""
    return Knowledge(
        assumptions.speculation,
        assumptions.cost_model(measured),
        assumptions.policy,
        speculates=slot.speculates,
        has_drafted=slot.has_drafted,
        request_baseline=period.period.request if period else None,
        wall=slot.end,
    )


def _evaluated(slot: Slot, known: Knowledge) -> SlotResult:
    evaluation = Evaluation((slot.window,), known)
    its, total = evaluation.evaluated, slot.window.total
    return SlotResult(
        slot.begin,
        slot.end,
        slot.window.seconds,
        _outcome(evaluation),
        slot.tokens if slot.speculates else 0,
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
    speedup = evaluation.evaluated.speedup_range
    if speedup is None or not speedup.is_bounded or evaluation.verdict is Verdict.INSUFFICIENT:
        return None
    return speedup.estimate


def _outcome(evaluation: Evaluation) -> Outcome:
    its = evaluation.evaluated
    if not its.total.drafts:
        worked = its.total.decode_steps or its.total.generation_tokens
        return Outcome.PLAIN if worked else Outcome.IDLE
    speedup = _speedup(evaluation)
    if speedup is None:
        return Outcome.UNCLEAR
    even = evaluation.known.policy.speedup.harmful
    if speedup.upper < even or (its.request is not None and its.request.is_slower):
        return Outcome.HURT
    return Outcome.PAID if speedup.lower >= even else Outcome.UNCLEAR
