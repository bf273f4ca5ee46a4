"""Evaluation of one engine: state, cost, bounds, verdict, depths, advice and findings.

Each part is a pure function of its own file; ``evaluate`` combines them. ``assess`` and ``conclude`` are its
two halves, for callers that debounce the advice in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spec_decode_exporter.analysis.cost import Cost, cost_curve, cost_of
from spec_decode_exporter.analysis.crossover import crossover_running_requests
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth, depths, marginal_benefits, recommended
from spec_decode_exporter.analysis.drops.drop import DropStatus
from spec_decode_exporter.analysis.evaluated_window import (
    MIN_SECONDS,
    Basis,
    Change,
    EvaluatedWindow,
    contradicts,
    since_change,
    unless_enough,
)
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.finding import Finding
from spec_decode_exporter.analysis.finding_context import FindingContext
from spec_decode_exporter.analysis.finding_rules import findings
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.missing_evidence import Need, missing
from spec_decode_exporter.analysis.recommendation import Action, recommendation
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State, state
from spec_decode_exporter.analysis.speedup import speedup_estimate, tokens_per_step_estimate
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    acceptance_length_estimate,
    acceptance_ratio_estimate,
)
from spec_decode_exporter.analysis.verdict import Verdict, is_sure, verdict
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio
from spec_decode_exporter.figures.estimate import Estimate
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
    costs: Sequence[LoadCost]
    """Measured cost of a draft token, by load."""
    drops: DropStatus = field(default_factory=DropStatus)
    faster: FasterMethod | None = None
    """Another method for the same model that is significantly faster (95 %), by an experiment."""
    change: Change | None = None
    """Last detected change; None without one since the windows began."""
    changes: int = 0
    """Number of changes and window resets so far."""
    wall: float = 0.0
    """Unix time of the newest poll."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Estimates of one window with their bounds; None if the window has none."""

    acceptance_ratio: Estimate | None
    acceptance_length: Estimate | None
    speedup: Estimate | None
    tokens_per_step: Estimate | None = None


class EngineAdvice(NamedTuple):
    """Recommended action and number of draft tokens."""

    action: Action = Action.COLLECT
    tokens: int | None = None


NO_ADVICE = EngineAdvice()
NO_BOUNDS = Bounds(None, None, None)


class Evaluated(NamedTuple):
    """Evaluated window with its cost and its bounds."""

    choice: EvaluatedWindow
    cost: Cost | None
    bounds: Bounds
    missing: tuple[Need, ...] = ()
    """Evidence that a verdict needs, any one of them; empty with a verdict."""


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
    is_cost_sure: bool = False
    """Whether the cost of the longest window is certain enough, at its load, for ``harmful``."""
    evaluated: Evaluated | None = None
    """Window of the verdict, the advice, the depths and the findings, with its cost and bounds."""
    drops: DropStatus = field(default_factory=DropStatus)
    """Drops at the moment of the evaluation."""
    wall: float = 0.0
    """Unix time of the evaluation."""

    @property
    def cost(self) -> Cost | None:
        """Cost of speculation in the longest window."""
        return self.costs[-1] if self.costs else None


UNREACHABLE = Evaluation(State.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Assessment:
    """First half of an evaluation: all but the findings and the final advice."""

    context: FindingContext
    costs: tuple[Cost | None, ...]
    bounds: tuple[Bounds, ...]
    depths: tuple[Depth, ...]
    advice: EngineAdvice
    """EngineAdvice by these windows alone; ``NO_ADVICE`` unless ``is_advisable``."""
    evaluated: Evaluated
    longest: Window
    """Longest window."""
    changes: int
    """Number of changes and window resets so far."""

    @property
    def is_advisable(self) -> bool:
        """Return whether advice is possible: the evaluated window has a verdict and suffices for advice."""
        return _is_advisable(self.context, self.evaluated.choice)


def evaluate(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Evaluation:
    """Evaluate ``windows``, ascending by length: see ``evaluated_window`` for the one with the verdict."""
    assessment = assess(windows, inputs)
    return conclude(assessment, assessment.advice)


def assess(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Assessment:
    """Return the first half of the evaluation of ``windows``, ascending by length."""
    assumptions = inputs.assumptions
    costs = tuple(_cost(each, inputs) for each in windows)
    bounds = tuple(map(_bounds, windows, costs))
    evaluated = _evaluated(windows, costs, bounds, inputs)
    window, cost = evaluated.choice.window, evaluated.cost
    context = FindingContext(
        window,
        assumptions.policy,
        _state(windows[-1], inputs),
        _verdict(window, evaluated.bounds, cost, assumptions.policy),
        evaluated.bounds.acceptance_length,
        cost,
        crossover=_crossover(window, inputs),
        latencies=inputs.latencies,
        broken=inputs.broken,
        speculation=assumptions.speculation,
        drops=inputs.drops,
        recent_length=acceptance_length_tokens(windows[0]),
        faster=inputs.faster,
        evaluated=evaluated.choice,
        wall=inputs.wall,
    )
    known = () if cost is None else depths(window, cost)
    if context.verdict is Verdict.INSUFFICIENT:
        evaluated = evaluated._replace(missing=missing(evaluated.choice, context.length, context.policy))
    advice = _advice(context, evaluated.choice, known)
    return Assessment(context, costs, bounds, known, advice, evaluated, windows[-1], inputs.changes)


def conclude(assessment: Assessment, advice: EngineAdvice) -> Evaluation:
    """Return the evaluation with ``advice``."""
    context, cost, known = assessment.context, assessment.evaluated.cost, assessment.depths
    its_cost = assessment.costs[-1]
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
        is_cost_sure=its_cost is not None and is_sure(its_cost, assessment.longest),
        evaluated=assessment.evaluated,
        drops=context.drops,
        wall=context.wall,
    )


def _evaluated(
    windows: tuple[Window, ...],
    costs: Sequence[Cost | None],
    bounds: Sequence[Bounds],
    inputs: EvaluationInputs,
) -> Evaluated:
    """Return the window that has the verdict."""
    choice = since_change(windows, inputs.change)
    if choice.basis is Basis.LONGEST and not windows[-1].partial:
        chosen = Evaluated(choice, costs[-1], bounds[-1])
    else:
        cost = _cost(choice.window, inputs)
        chosen = Evaluated(choice, cost, _bounds(choice.window, cost))
    enough = unless_enough(chosen.choice, chosen.bounds)
    if enough.window.partial:
        return chosen._replace(choice=enough, bounds=NO_BOUNDS)
    for window, cost, its_bounds in reversed(list(zip(windows, costs, bounds, strict=True))):
        if not MIN_SECONDS <= window.seconds < chosen.choice.window.seconds or window.partial:
            continue
        policy = inputs.assumptions.policy
        claimed = _verdict(chosen.choice.window, chosen.bounds, chosen.cost, policy)
        if contradicts(its_bounds, chosen.bounds, claimed, policy.speedup):
            choice = EvaluatedWindow(window, Basis.SHORTER, windows[-1].length)
            chosen = Evaluated(choice, cost, its_bounds)
    return chosen


def _cost(window: Window, inputs: EvaluationInputs) -> Cost | None:
    if not inputs.speculates:
        return None
    assumptions = inputs.assumptions
    method = assumptions.speculation.method
    return cost_of(assumptions.cost, inputs.costs, method, drafting_requests(window))


def _crossover(window: Window, inputs: EvaluationInputs) -> float | None:
    assumptions = inputs.assumptions
    curve = cost_curve(assumptions.cost, inputs.costs, assumptions.speculation.method)
    return None if curve is None else crossover_running_requests(window, curve)


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


def _bounds(window: Window, cost: Cost | None) -> Bounds:
    return Bounds(
        acceptance_ratio_estimate(window),
        acceptance_length_estimate(window),
        None if cost is None else speedup_estimate(window, cost),
        tokens_per_step_estimate(window),
    )


def _verdict(window: Window, bounds: Bounds, cost: Cost | None, policy: Policy) -> Verdict:
    return verdict(
        window,
        length=bounds.acceptance_length,
        speedup_value=None if cost is None else estimated_speedup_ratio(window, cost),
        speedup=bounds.speedup,
        cost=cost,
        policy=policy,
    )


def _is_advisable(context: FindingContext, choice: EvaluatedWindow) -> bool:
    return context.verdict is not Verdict.INSUFFICIENT and choice.is_advisable


def _advice(context: FindingContext, choice: EvaluatedWindow, known: Sequence[Depth]) -> EngineAdvice:
    """Return the advice by one window alone."""
    if not _is_advisable(context, choice):
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
