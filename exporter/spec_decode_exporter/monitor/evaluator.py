"""Evaluator of one engine: debounces the advice of successive evaluations."""

from __future__ import annotations

from math import inf

from spec_decode_exporter.analysis.assessment import Assessment, assess
from spec_decode_exporter.analysis.evaluation import Concluded
from spec_decode_exporter.analysis.evaluation_inputs import EvaluationInputs
from spec_decode_exporter.analysis.evaluation_result import NO_ADVICE, Conclusion, EngineAdvice
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.verdict import NOT_PAYING
from spec_decode_exporter.core.debounce import Debounce
from spec_decode_exporter.window.ledger import Window

_NEEDS_A_BAD_VERDICT = (Action.DISABLE, Action.LIMIT_BATCH)


class Evaluator:
    """Evaluates one engine repeatedly; its advice changes only after a whole evaluated window.

    That is the longest window, or what came since a change: advice of a minute must not stay for longer. A
    change ends the advice of the time before it.
    """

    def __init__(self, longest: float) -> None:
        """Debounce advice by ``longest``, the length of the longest window in seconds."""
        self.keep(longest)

    def keep(self, longest: float) -> None:
        """Use another longest window, and start without advice."""
        self._longest = longest
        self._debounce: Debounce[EngineAdvice] = Debounce(longest)
        self._advised_at = -inf
        self._changes = 0

    def evaluate(self, windows: tuple[Window, ...], inputs: EvaluationInputs, now: float) -> Conclusion:
        """Evaluate ``windows``, ascending by length, at ``now`` (monotonic seconds)."""
        assessment = assess(windows, inputs)
        if assessment.changes != self._changes:
            self.keep(self._longest)
            self._changes = assessment.changes
        return Concluded(assessment, self._advice(assessment, now))

    def _advice(self, assessment: Assessment, now: float) -> EngineAdvice:
        """Return the debounced advice; none without a verdict of a whole window.

        The last advice returns if there is a verdict again within a longest window: it must not flicker while
        drafts are only just enough.
        """
        if not assessment.is_advisable:
            if now - self._advised_at >= self._longest:
                self._debounce = Debounce(self._longest)
            return NO_ADVICE
        self._advised_at = now
        seconds = min(self._longest, assessment.evaluated.choice.window.seconds)
        advice = self._debounce.offer(assessment.advice, now, seconds)
        if advice.action in _NEEDS_A_BAD_VERDICT and assessment.verdict not in NOT_PAYING:
            self._debounce = Debounce(self._longest)
            advice = self._debounce.offer(assessment.advice, now)
        return advice
