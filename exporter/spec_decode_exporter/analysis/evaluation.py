"""Evaluation of one engine: state, cost, bounds, verdict, depths, advice and findings.

An assessment has what verdict and advice depend on. ``Concluded`` adds the debounced advice, and computes the
rest of the evaluation for its first reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec_decode_exporter.analysis.assessment import Assessment, assess, completed
from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth, marginal_benefits
from spec_decode_exporter.analysis.evaluation_inputs import EvaluationInputs
from spec_decode_exporter.analysis.evaluation_result import (
    EngineAdvice,
    Evaluated,
    Evaluation,
    WindowEvaluation,
)
from spec_decode_exporter.analysis.finding_context import FindingContext
from spec_decode_exporter.analysis.finding_rules import findings
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.recommended_setting import recommended_setting
from spec_decode_exporter.analysis.speculation_setting import SpeculationSetting
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_bounds import NO_BOUNDS
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.window.ledger import Window


@dataclass(frozen=True, slots=True)
class Concluded:
    """Verdict and advice of an assessment, which ``completed`` makes an evaluation."""

    assessment: Assessment
    advice: EngineAdvice
    """Debounced advice."""
    setting: Callable[[Assessment, EngineAdvice], SpeculationSetting] = recommended_setting
    """Returns the recommended setting."""

    @property
    def state(self) -> State:
        """State of speculation."""
        return self.assessment.state

    @property
    def verdict(self) -> Verdict:
        """Verdict by the evaluated window."""
        return self.assessment.verdict

    @property
    def action(self) -> Action:
        """Recommended action."""
        return self.advice.action

    @property
    def recommended(self) -> Depth | None:
        """Recommended number of draft tokens."""
        matching = (
            depth for depth in (NO_SPECULATION, *self.assessment.depths) if depth.tokens == self.advice.tokens
        )
        return next(matching, None)

    @property
    def cost(self) -> Cost | None:
        """Cost of speculation in the longest window."""
        return self.assessment.results[-1].cost

    @property
    def evaluated(self) -> Evaluated:
        """Evaluated window."""
        return self.assessment.evaluated

    def completed(self) -> Evaluation:
        """Return the whole evaluation."""
        assessment, inputs, known = self.assessment, self.assessment.inputs, self.assessment.depths
        pairs = zip(assessment.windows, assessment.results, strict=True)
        results = [completed(*pair, inputs) for pair in pairs]
        evaluated = _completed(assessment, results)
        window, cost, depth = evaluated.choice.window, evaluated.cost, self.recommended
        return Evaluation(
            self.state,
            self.verdict,
            self.action,
            tuple(each.cost for each in results),
            assessment.crossover,
            tuple(each.bounds for each in results),
            known,
            () if cost is None else marginal_benefits(window, cost, known),
            depth,
            findings(_context(assessment, evaluated, depth)),
            inputs.faster,
            requests=tuple(each.request for each in results),
            request_baseline=inputs.request_baseline,
            evaluated=evaluated,
            setting=self.setting(assessment, self.advice),
            drops=inputs.drops,
            wall=inputs.wall,
        )


def evaluate(windows: tuple[Window, ...], inputs: EvaluationInputs) -> Evaluation:
    """Evaluate ``windows``, ascending by length, with the advice by these windows alone."""
    assessment = assess(windows, inputs)
    return Concluded(assessment, assessment.advice).completed()


def _completed(assessment: Assessment, results: Sequence[WindowEvaluation]) -> Evaluated:
    """Return the evaluated window with its whole result; ``results`` are the whole ones of all windows."""
    its = assessment.evaluated
    if its.bounds is NO_BOUNDS:
        return its
    pairs = zip(assessment.results, results, strict=True)
    same = next((whole for result, whole in pairs if result is its.result), None)
    return its._replace(result=same or completed(its.choice.window, its.result, assessment.inputs))


def _context(assessment: Assessment, evaluated: Evaluated, depth: Depth | None) -> FindingContext:
    """Return the inputs of the findings; ``depth`` is the recommended one."""
    inputs, choice, result = assessment.inputs, evaluated.choice, evaluated.result
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
