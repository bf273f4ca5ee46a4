"""Evaluator of one engine: debounces the advice of successive evaluations."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.assessment import Assessment, assess
from spec_decode_exporter.analysis.evaluation import Concluded
from spec_decode_exporter.analysis.evaluation_inputs import EvaluationInputs, LastDrafts
from spec_decode_exporter.analysis.evaluation_result import NO_ADVICE, Conclusion, EngineAdvice
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.recommended_setting import recommended_setting
from spec_decode_exporter.analysis.speculation_setting import SpeculationSetting
from spec_decode_exporter.analysis.verdict import NOT_PAYING
from spec_decode_exporter.core.debounce import Debounce
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window

_NEEDS_A_BAD_VERDICT = (Action.DISABLE, Action.LIMIT_BATCH)


SETTING_SECONDS: Final = 30.0
"""Time for which a recommended setting stays, unless the advice or the assumptions change."""


class _HeldSetting(NamedTuple):
    """Recommended setting, what it depends on besides the windows, and its moment (monotonic)."""

    setting: SpeculationSetting
    basis: tuple[object, ...]
    moment: float


class Evaluator:
    """Evaluates one engine repeatedly; its advice changes only after a whole evaluated window.

    That is the longest window, or what came since a change: advice of a minute must not stay for longer. A
    change ends the advice of the time before it.
    """

    def __init__(self, longest: float) -> None:
        """Debounce advice by ``longest``, the length of the longest window in seconds."""
        self.last_drafts: LastDrafts | None = None
        self.keep(longest)

    def keep(self, longest: float) -> None:
        """Use another longest window, and start without advice."""
        self._longest = longest
        self._debounce: Debounce[EngineAdvice] = Debounce(longest)
        self._advised_at = -inf
        self._changes = 0
        self._held: _HeldSetting | None = None

    def evaluate(self, windows: tuple[Window, ...], inputs: EvaluationInputs, now: float) -> Conclusion:
        """Evaluate ``windows``, ascending by length, at ``now`` (monotonic seconds)."""
        assessment = assess(windows, inputs)
        if assessment.changes != self._changes:
            self.keep(self._longest)
            self._changes = assessment.changes
        self.last_drafts = self._drafted(assessment)
        return Concluded(assessment, self._advice(assessment, now), partial(self._setting, now))

    def _setting(self, now: float, assessment: Assessment, advice: EngineAdvice) -> SpeculationSetting:
        """Return the recommended setting, for ``SETTING_SECONDS`` the same one.

        Comparing all loads takes longer than the rest of an evaluation, and a setting that is to be copied
        must not change each second.
        """
        inputs = assessment.inputs
        basis = (advice, inputs.assumptions, inputs.data_parallel, inputs.changes)
        held = self._held
        if held is None or held.basis != basis or now - held.moment >= SETTING_SECONDS:
            held = self._held = _HeldSetting(recommended_setting(assessment, advice), basis, now)
            if inputs.last_drafts is not None:
                inputs.last_drafts.window.forget()
        return held.setting

    def _drafted(self, assessment: Assessment) -> LastDrafts | None:
        """Return the newest drafts with a verdict, for the time in which the schedule will draft nothing."""
        inputs, window = assessment.inputs, assessment.evaluated.choice.window
        if not inputs.assumptions.speculation.schedule.pauses:
            return None
        if assessment.is_advisable and window.increments.counter(Counter.DRAFTS)[-1]:
            return LastDrafts(window, inputs.wall, inputs.changes)
        return self.last_drafts

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
