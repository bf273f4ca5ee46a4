"""Assessment of one engine: all that its verdict and its advice depend on.

Each part is a pure function of its own file. What only readers of an evaluation need is in ``evaluation``: an
engine is assessed every few seconds, and read less often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec_decode_exporter.analysis.cost import Cost, CostKnowledge, cost_of, typical_cost
from spec_decode_exporter.analysis.cost_curve import best_curve
from spec_decode_exporter.analysis.crossover import crossover_running_requests
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth, depths, recommended
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
    WindowEvaluation,
)
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
from spec_decode_exporter.figures.acceptance import draft_length_tokens
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.server_load import drafting_requests, mean
from spec_decode_exporter.scrape.page.engine_table import Gauge
from spec_decode_exporter.window.ledger import Window


@dataclass(frozen=True, slots=True)
class Assessment:
    """State, verdict and advice of an engine by its windows alone, before the advice is debounced."""

    windows: tuple[Window, ...]
    inputs: EvaluationInputs
    state: State
    verdict: Verdict
    crossover: float | None
    results: tuple[WindowEvaluation, ...]
    """Results of each window, as far as verdict and advice depend on them: see ``completed``."""
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


def assess(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Assessment:
    """Assess ``windows``, ascending by length: see ``evaluated_window`` for the one with the verdict."""
    known = cost_knowledge(inputs)
    *shorter, longest = (_result(each, inputs, known) for each in windows)
    results = (*shorter, _with_request(windows[-1], longest, inputs))
    evaluated = _evaluated(windows, results, inputs, known)
    window, result, policy = evaluated.choice.window, evaluated.result, inputs.assumptions.policy
    found = _verdict(window, result, policy)
    if found is Verdict.INSUFFICIENT:
        needs = missing(evaluated.choice, result.bounds.acceptance_length, result.speedup, policy)
        evaluated = evaluated._replace(missing=needs)
    possible = () if result.cost is None else depths(window, result.cost)
    crossover = _crossover(window, known)
    return Assessment(
        windows,
        inputs,
        _state(windows[-1], inputs),
        found,
        crossover,
        tuple(evaluated.result if each.bounds is evaluated.bounds else each for each in results),
        possible,
        _advice(evaluated, found, crossover, possible, inputs),
        evaluated,
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
        window = choice.window
        chosen = Evaluated(choice, _with_request(window, _result(window, inputs, known), inputs))
    enough = unless_enough(chosen.choice, chosen.bounds)
    if enough.window.partial:
        return Evaluated(enough, chosen.result._replace(bounds=NO_BOUNDS))
    policy = inputs.assumptions.policy
    for window, result in reversed(list(zip(windows, results, strict=True))):
        if not MIN_SECONDS <= window.seconds < chosen.choice.window.seconds or window.partial:
            continue
        claimed = _verdict(chosen.choice.window, chosen.result, policy)
        if contradicts(result.bounds, chosen.bounds, claimed, policy.speedup):
            shorter = EvaluatedWindow(window, Basis.SHORTER, windows[-1].length)
            chosen = Evaluated(shorter, _with_request(window, result, inputs))
    return chosen


def _result(window: Window, inputs: EvaluationInputs, known: CostKnowledge) -> WindowEvaluation:
    """Return cost and speed-up of a window, with the bounds that a verdict depends on."""
    cost = _cost(window, known, inputs)
    assumed = cost or _assumed(window, known)
    bounds = Bounds(
        acceptance_length=acceptance_length_estimate(window),
        speedup=None if cost is None else speedup_estimate(window, cost),
        tokens_per_step=tokens_per_step_estimate(window),
    )
    speedup = _speedup(window, assumed, bounds, known, inputs.assumptions.policy)
    return WindowEvaluation(cost, assumed, bounds, speedup)


def completed(window: Window, result: WindowEvaluation, inputs: EvaluationInputs) -> WindowEvaluation:
    """Return the result of a window with the bounds and the speed-up that only readers need."""
    cost, assumed = result.cost, result.assumed
    bounds = replace(
        result.bounds,
        acceptance_ratio=acceptance_ratio_estimate(window),
        break_even_cost=break_even_cost_estimate(window, cost, assumed.low, assumed.high),
    )
    return _with_request(window, result, inputs)._replace(bounds=bounds)


def _with_request(window: Window, result: WindowEvaluation, inputs: EvaluationInputs) -> WindowEvaluation:
    """Return the result with the speed-up of whole requests."""
    cost = result.cost
    if cost is None or result.request is not None:
        return result
    speedup = estimated_speedup_ratio(window, cost)
    return result._replace(
        request=end_to_end(window, speedup, result.bounds.speedup, inputs.request_baseline)
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


def cost_knowledge(inputs: EvaluationInputs) -> CostKnowledge:
    """Return everything that is known of the engine's cost."""
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
    shorter = inputs.recent is not None and inputs.recent.length < window.length
    recent = inputs.recent if shorter and inputs.recent is not None else window
    return state(
        reachable=True,
        speculates=inputs.speculates,
        undecided=inputs.undecided,
        window=window,
        recent=recent,
        drafted_before=inputs.drafted_before,
        method=speculation.method,
        scheduled_off=speculation.scheduled_off(mean(recent, Gauge.RUNNING_REQUESTS)),
        min_drafts=inputs.assumptions.policy.min_drafts,
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
    if action is Action.DISABLE:  # another number may be better at the best guess, but is not known to pay
        best = NO_SPECULATION
    return EngineAdvice(action, None if best is None or action is Action.COLLECT else best.tokens)
