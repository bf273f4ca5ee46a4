"""Evaluation of one engine: state, cost, bounds, verdict, depths, advice and findings.

Each part is a pure function of its own file; ``evaluate`` combines them. ``assess`` and ``conclude`` are its
two halves, for callers that debounce the advice in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec_decode_exporter.analysis.cost import Cost, CostKnowledge, cost_of, typical_cost
from spec_decode_exporter.analysis.cost_curve import best_curve
from spec_decode_exporter.analysis.crossover import crossover_running_requests
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth, depths, marginal_benefits, recommended
from spec_decode_exporter.analysis.end_to_end import capped, end_to_end
from spec_decode_exporter.analysis.evaluated_window import (
    MIN_SECONDS,
    Basis,
    EvaluatedWindow,
    contradicts,
    since_change,
    unless_enough,
)
from spec_decode_exporter.analysis.evaluation_inputs import EvaluationInputs
from spec_decode_exporter.analysis.evaluation_result import (
    NO_ADVICE,
    EngineAdvice,
    Evaluated,
    Evaluation,
    WindowEvaluation,
)
from spec_decode_exporter.analysis.finding_context import FindingContext
from spec_decode_exporter.analysis.finding_rules import findings
from spec_decode_exporter.analysis.missing_evidence import missing
from spec_decode_exporter.analysis.recommendation import Action, recommendation
from spec_decode_exporter.analysis.speculation_state import State, drafts_what_it_finds, state
from spec_decode_exporter.analysis.speedup import (
    SpeedupRange,
    break_even_cost_estimate,
    speedup_estimate,
    speedup_range,
    tokens_per_step_estimate,
)
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    acceptance_length_estimate,
    acceptance_ratio_estimate,
)
from spec_decode_exporter.analysis.verdict import Verdict, verdict
from spec_decode_exporter.analysis.window_bounds import NO_BOUNDS, Bounds
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens, draft_length_tokens
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.server_load import drafting_requests, mean
from spec_decode_exporter.scrape.page.engine_table import Gauge
from spec_decode_exporter.window.ledger import Window


@dataclass(frozen=True, slots=True)
class Assessment:
    """First half of an evaluation: all but the findings and the final advice."""

    windows: tuple[Window, ...]
    inputs: EvaluationInputs
    state: State
    verdict: Verdict
    crossover: float | None
    results: tuple[WindowEvaluation, ...]
    """Results of each window."""
    depths: tuple[Depth, ...]
    advice: EngineAdvice
    """Advice by these windows alone; ``NO_ADVICE`` unless ``is_advisable``."""
    evaluated: Evaluated

    @property
    def changes(self) -> int:
        """Number of changes and window resets so far."""
        return self.inputs.changes

    @property
    def is_advisable(self) -> bool:
        """Return whether advice is possible: the evaluated window has a verdict and suffices for advice."""
        return _is_advisable(self.verdict, self.evaluated.choice)


def evaluate(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Evaluation:
    """Evaluate ``windows``, ascending by length: see ``evaluated_window`` for the one with the verdict."""
    assessment = assess(windows, inputs)
    return conclude(assessment, assessment.advice)


def assess(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Assessment:
    """Return the first half of the evaluation of ``windows``, ascending by length."""
    known = _knowledge(inputs)
    results = tuple(_result(each, inputs, known) for each in windows)
    evaluated = _evaluated(windows, results, inputs, known)
    window, result, policy = evaluated.choice.window, evaluated.result, inputs.assumptions.policy
    found = _verdict(window, result, policy)
    if found is Verdict.INSUFFICIENT:
        length = result.bounds.acceptance_length
        evaluated = evaluated._replace(missing=missing(evaluated.choice, length, policy))
    possible = () if result.cost is None else depths(window, result.cost)
    crossover = _crossover(window, known)
    return Assessment(
        windows,
        inputs,
        _state(windows[-1], inputs),
        found,
        crossover,
        results,
        possible,
        _advice(evaluated, found, crossover, possible, inputs),
        evaluated,
    )


def conclude(assessment: Assessment, advice: EngineAdvice) -> Evaluation:
    """Return the evaluation with ``advice``."""
    inputs, evaluated, known = assessment.inputs, assessment.evaluated, assessment.depths
    matching = (depth for depth in (NO_SPECULATION, *known) if depth.tokens == advice.tokens)
    depth = next(matching, None)
    window, cost = evaluated.choice.window, evaluated.cost
    return Evaluation(
        assessment.state,
        assessment.verdict,
        advice.action,
        tuple(each.cost for each in assessment.results),
        assessment.crossover,
        tuple(each.bounds for each in assessment.results),
        known,
        () if cost is None else marginal_benefits(window, cost, known),
        depth,
        findings(_context(assessment, depth)),
        inputs.faster,
        requests=tuple(each.request for each in assessment.results),
        request_baseline=inputs.request_baseline,
        evaluated=evaluated,
        drops=inputs.drops,
        wall=inputs.wall,
    )


def _context(assessment: Assessment, depth: Depth | None) -> FindingContext:
    """Return the inputs of the findings; ``depth`` is the recommended one."""
    inputs, choice, result = assessment.inputs, assessment.evaluated.choice, assessment.evaluated.result
    assumptions = inputs.assumptions
    return FindingContext(
        choice.window,
        assumptions.policy,
        assessment.state,
        assessment.verdict,
        result.bounds.acceptance_length,
        result.cost,
        depth,
        crossover=assessment.crossover,
        latencies=inputs.latencies,
        broken=inputs.broken,
        speculation=assumptions.speculation,
        drops=inputs.drops,
        recent_length=acceptance_length_tokens(assessment.windows[0]),
        faster=inputs.faster,
        speedup=result.speedup,
        assumed_cost=result.assumed,
        break_even_cost=result.bounds.break_even_cost,
        cost_settings=assumptions.cost,
        request_baseline=inputs.request_baseline,
        evaluated=choice,
        wall=inputs.wall,
    )


def _evaluated(
    windows: tuple[Window, ...],
    results: Sequence[WindowEvaluation],
    inputs: EvaluationInputs,
    known: CostKnowledge,
) -> Evaluated:
    """Return the window that has the verdict."""
    choice = since_change(windows, inputs.change)
    if choice.basis is Basis.LONGEST and not windows[-1].partial:
        chosen = Evaluated(choice, results[-1])
    else:
        chosen = Evaluated(choice, _result(choice.window, inputs, known))
    enough = unless_enough(chosen.choice, chosen.bounds)
    if enough.window.partial:
        return Evaluated(enough, chosen.result._replace(bounds=NO_BOUNDS))
    policy = inputs.assumptions.policy
    for window, result in reversed(list(zip(windows, results, strict=True))):
        if not MIN_SECONDS <= window.seconds < chosen.choice.window.seconds or window.partial:
            continue
        claimed = _verdict(chosen.choice.window, chosen.result, policy)
        if contradicts(result.bounds, chosen.bounds, claimed, policy.speedup):
            chosen = Evaluated(EvaluatedWindow(window, Basis.SHORTER, windows[-1].length), result)
    return chosen


def _result(window: Window, inputs: EvaluationInputs, known: CostKnowledge) -> WindowEvaluation:
    """Return cost, bounds and speed-ups of a window."""
    cost = _cost(window, known, inputs)
    assumed = cost or _assumed(window, known)
    bounds = _bounds(window, cost, assumed)
    speedup = None if cost is None else estimated_speedup_ratio(window, cost)
    return WindowEvaluation(
        cost,
        assumed,
        bounds,
        _speedup(window, assumed, bounds, known, inputs.assumptions.policy),
        end_to_end(window, speedup, bounds.speedup, inputs.request_baseline),
    )


def _verdict(window: Window, result: WindowEvaluation, policy: Policy) -> Verdict:
    """Return the verdict by a window, limited by that of whole requests."""
    decoding = verdict(
        window,
        length=result.bounds.acceptance_length,
        speedup=result.speedup,
        is_cost_known=result.cost is not None,
        policy=policy,
    )
    return capped(decoding, result.request, policy.speedup)


def _knowledge(inputs: EvaluationInputs) -> CostKnowledge:
    assumptions, speculation = inputs.assumptions, inputs.assumptions.speculation
    return CostKnowledge(
        assumptions.cost,
        inputs.costs,
        speculation.method,
        speculation.architecture,
        speculation.experts_ratio,
    )


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
        break_even_cost_estimate(window, cost, assumed.low, assumed.high),
        tokens_per_step_estimate(window),
    )


def _is_advisable(found: Verdict, choice: EvaluatedWindow) -> bool:
    return found is not Verdict.INSUFFICIENT and choice.is_advisable


def _advice(
    evaluated: Evaluated,
    found: Verdict,
    crossover: float | None,
    known: Sequence[Depth],
    inputs: EvaluationInputs,
) -> EngineAdvice:
    """Return the advice by one window alone."""
    if not _is_advisable(found, evaluated.choice):
        return NO_ADVICE
    window, cost, policy = evaluated.choice.window, evaluated.cost, inputs.assumptions.policy.depth
    best = None if cost is None else recommended(window, cost, known, policy.tolerance)
    action = recommendation(
        window,
        verdict=found,
        length=evaluated.bounds.acceptance_length,
        cost=cost,
        depth=best,
        crossover=crossover,
        better_method=inputs.faster is not None,
        policy=policy,
    )
    return EngineAdvice(action, None if best is None or action is Action.COLLECT else best.tokens)
