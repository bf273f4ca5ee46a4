"""Evaluation of one engine: state, cost, bounds, verdict, depths, advice and findings.

Each part is a pure function of its own file; ``evaluate`` combines them. ``assess`` and ``conclude`` are its
two halves, for callers that debounce the advice in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spec_decode_exporter.analysis.cost import Cost, CostKnowledge, cost_of, typical_cost
from spec_decode_exporter.analysis.cost_curve import best_curve
from spec_decode_exporter.analysis.crossover import crossover_running_requests
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth, depths, marginal_benefits, recommended
from spec_decode_exporter.analysis.drops.drop import DropStatus
from spec_decode_exporter.analysis.end_to_end import EndToEnd, capped, end_to_end
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.finding import Finding
from spec_decode_exporter.analysis.finding_context import FindingContext
from spec_decode_exporter.analysis.finding_rules import findings
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.recommendation import Action, recommendation
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State, drafts_what_it_finds, is_whole, state
from spec_decode_exporter.analysis.speedup import (
    SpeedupRange,
    break_even_cost_estimate,
    speedup_estimate,
    speedup_range,
)
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    acceptance_length_estimate,
    acceptance_ratio_estimate,
)
from spec_decode_exporter.analysis.verdict import Verdict, verdict
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens, draft_length_tokens
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.server_load import drafting_requests, mean
from spec_decode_exporter.scrape.page.engine_table import Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import Window


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Knowledge of an engine besides its counters, and the thresholds of its evaluation."""

    speculation: Speculation = field(default_factory=Speculation)
    cost: CostSettings | None = None
    policy: Policy = field(default_factory=Policy)
    reference: ReferenceSettings | None = None
    """Acceptance to compare with; None if unknown."""


@dataclass(frozen=True, slots=True)
class EvaluationInputs:
    """Inputs of an evaluation besides the windows."""

    assumptions: Assumptions
    latencies: Mapping[Latency, Buckets]
    broken: frozenset[Check]
    speculates: bool
    drafted_before: bool
    """Whether the engine drafted since the server's process began."""
    costs: Sequence[MeasuredCost]
    """Measured cost of a draft token, by load."""
    drops: DropStatus = field(default_factory=DropStatus)
    faster: FasterMethod | None = None
    """Another method for the same model that is significantly faster (95 %), by an experiment."""
    request_baseline: RequestBaseline | None = None
    """Requests of the same model without speculation; None if unknown."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Estimates of one window with their bounds; None if the window has none."""

    acceptance_ratio: Estimate | None
    acceptance_length: Estimate | None
    speedup: Estimate | None
    """With the interval of the cost."""
    break_even_cost: Estimate | None


class EngineAdvice(NamedTuple):
    """Recommended action and number of draft tokens."""

    action: Action = Action.COLLECT
    tokens: int | None = None


NO_ADVICE = EngineAdvice()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of an evaluation. Values that need a cost are absent if the cost is unknown."""

    state: State
    verdict: Verdict = Verdict.INSUFFICIENT
    action: Action = Action.COLLECT
    costs: tuple[Cost | None, ...] = ()
    """Cost of speculation in each window, at the load of its draft tokens."""
    crossover: float | None = None
    """Running requests above which speculation does not pay."""
    bounds: tuple[Bounds, ...] = ()
    """Bounds of each window."""
    depths: tuple[Depth, ...] = ()
    marginal_benefits: tuple[float, ...] = ()
    """Marginal benefit of each depth."""
    recommended: Depth | None = None
    findings: tuple[Finding, ...] = ()
    faster: FasterMethod | None = None
    """Better method, as long as an experiment shows one."""
    speedup: SpeedupRange | None = None
    """Speed-up in the longest window at the possible costs; of any drafter's if the cost is unknown."""
    requests: tuple[EndToEnd | None, ...] = ()
    """Speed-up of whole requests in each window."""
    request_baseline: RequestBaseline | None = None
    """Requests without speculation, if they are known."""

    @property
    def request(self) -> EndToEnd | None:
        """Speed-up of whole requests in the longest window."""
        return self.requests[-1] if self.requests else None

    @property
    def cost(self) -> Cost | None:
        """Cost of speculation in the longest window."""
        return self.costs[-1] if self.costs else None


UNREACHABLE = Evaluation(State.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Assessment:
    """First half of an evaluation: all but the findings and the final advice."""

    context: FindingContext
    speedup: SpeedupRange | None
    costs: tuple[Cost | None, ...]
    bounds: tuple[Bounds, ...]
    requests: tuple[EndToEnd | None, ...]
    depths: tuple[Depth, ...]
    advice: EngineAdvice
    """EngineAdvice by these windows alone; ``NO_ADVICE`` unless ``is_advisable``."""

    @property
    def is_advisable(self) -> bool:
        """Return whether advice is possible: the longest window has a verdict and covers its length."""
        return _is_advisable(self.context)


def evaluate(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Evaluation:
    """Evaluate ``windows``, ascending by length; the longest one has the verdict."""
    assessment = assess(windows, inputs)
    return conclude(assessment, assessment.advice)


def assess(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Assessment:
    """Return the first half of the evaluation of ``windows``, ascending by length."""
    window, assumptions = windows[-1], inputs.assumptions
    known = _knowledge(inputs)
    costs = tuple(_cost(each, known, inputs) for each in windows)
    assumed = tuple(cost or _assumed(each, known) for each, cost in zip(windows, costs, strict=True))
    bounds = tuple(
        _bounds(each, cost, some) for each, cost, some in zip(windows, costs, assumed, strict=True)
    )
    requests = tuple(
        _request(*each, inputs.request_baseline) for each in zip(windows, costs, bounds, strict=True)
    )
    cost = costs[-1]
    speedup = _speedup(window, assumed[-1], bounds[-1], known, assumptions.policy)
    context = FindingContext(
        window,
        assumptions.policy,
        _state(window, inputs),
        capped(
            verdict(
                window,
                length=bounds[-1].acceptance_length,
                speedup=speedup,
                is_cost_known=cost is not None,
                policy=assumptions.policy,
            ),
            requests[-1],
            assumptions.policy.speedup,
        ),
        bounds[-1].acceptance_length,
        cost,
        crossover=_crossover(window, known),
        latencies=inputs.latencies,
        broken=inputs.broken,
        speculation=assumptions.speculation,
        drops=inputs.drops,
        recent_length=acceptance_length_tokens(windows[0]),
        faster=inputs.faster,
        speedup=speedup,
        assumed_cost=assumed[-1],
        break_even_cost=bounds[-1].break_even_cost,
        cost_settings=assumptions.cost,
        request_baseline=inputs.request_baseline,
    )
    possible = () if cost is None else depths(window, cost)
    return Assessment(context, speedup, costs, bounds, requests, possible, _advice(context, possible))


def conclude(assessment: Assessment, advice: EngineAdvice) -> Evaluation:
    """Return the evaluation with ``advice``."""
    context, cost, known = assessment.context, assessment.costs[-1], assessment.depths
    matching = (depth for depth in (NO_SPECULATION, *known) if depth.tokens == advice.tokens)
    depth = next(matching, None)
    return Evaluation(
        context.state,
        context.verdict,
        advice.action,
        assessment.costs,
        context.crossover,
        assessment.bounds,
        known,
        () if cost is None else marginal_benefits(context.window, cost, known),
        depth,
        findings(replace(context, depth=depth)),
        context.faster,
        assessment.speedup,
        requests=assessment.requests,
        request_baseline=context.request_baseline,
    )


def _knowledge(inputs: EvaluationInputs) -> CostKnowledge:
    assumptions, speculation = inputs.assumptions, inputs.assumptions.speculation
    return CostKnowledge(assumptions.cost, inputs.costs, speculation.method, speculation.architecture)


def _cost(window: Window, known: CostKnowledge, inputs: EvaluationInputs) -> Cost | None:
    if not inputs.speculates:
        return None
    return cost_of(known, drafting_requests(window), draft_length_tokens(window) or len(window.positions))


def _assumed(window: Window, known: CostKnowledge) -> Cost:
    """Return the cost of any drafter, for the verdict of an engine whose cost is unknown."""
    return typical_cost(known, drafting_requests(window), draft_length_tokens(window) or 0.0)


def _crossover(window: Window, known: CostKnowledge) -> float | None:
    curve = best_curve(known.settings, known.measured, known.method)
    return None if curve is None else crossover_running_requests(window, curve)


def _speedup(
    window: Window, assumed: Cost, bounds: Bounds, known: CostKnowledge, policy: Policy
) -> SpeedupRange | None:
    """Return the speed-up at the possible costs.

    A search that drafts in few steps has an upper limit alone, if the engine does not count its steps.
    """
    estimate = bounds.speedup or speedup_estimate(window, assumed)
    found = speedup_range(window, assumed, estimate, policy.max_half_width)
    if found is None or decoded_tokens(window) is not None or not drafts_what_it_finds(known.method):
        return found
    return replace(found, estimate=replace(found.estimate, lower=0.0), at_highest_cost=0.0)


def _state(window: Window, inputs: EvaluationInputs) -> State:
    speculation = inputs.assumptions.speculation
    return state(
        reachable=True,
        speculates=inputs.speculates,
        window=window,
        drafted_before=inputs.drafted_before,
        method=speculation.method,
        scheduled_off=speculation.scheduled_off(mean(window, Gauge.RUNNING_REQUESTS)),
        min_drafts=inputs.assumptions.policy.min_drafts,
    )


def _bounds(window: Window, cost: Cost | None, assumed: Cost) -> Bounds:
    return Bounds(
        acceptance_ratio_estimate(window),
        acceptance_length_estimate(window),
        None if cost is None else speedup_estimate(window, cost),
        break_even_cost_estimate(window, assumed.low, assumed.high),
    )


def _request(
    window: Window, cost: Cost | None, bounds: Bounds, baseline: RequestBaseline | None
) -> EndToEnd | None:
    speedup = None if cost is None else estimated_speedup_ratio(window, cost)
    return end_to_end(window, speedup, bounds.speedup, baseline)


def _is_advisable(context: FindingContext) -> bool:
    return context.verdict is not Verdict.INSUFFICIENT and is_whole(context.window)


def _advice(context: FindingContext, known: Sequence[Depth]) -> EngineAdvice:
    """Return the advice by one window alone."""
    if not _is_advisable(context):
        return NO_ADVICE
    window, cost, policy = context.window, context.cost, context.policy.depth
    best = None if cost is None else recommended(window, cost, known, policy.tolerance)
    action = recommendation(
        window,
        verdict=context.verdict,
        length=context.length,
        cost=cost,
        depth=best,
        crossover=context.crossover,
        better_method=context.faster is not None,
        policy=policy,
    )
    return EngineAdvice(action, None if best is None or action is Action.COLLECT else best.tokens)
