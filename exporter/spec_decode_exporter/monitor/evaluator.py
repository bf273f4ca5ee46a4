"""Evaluator of one engine: debounces the advice and the setting of successive evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Knowledge, LastDrafts
from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting
from spec_decode_exporter.analysis.verdict import NOT_PAYING, Action, Advice
from spec_decode_exporter.core.debounce import Debounce
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.history import Window, columns

SETTING_SECONDS: Final = 30.0
"""Time for which a recommended setting stays, unless the advice or the assumptions change."""
_NEEDS_A_BAD_VERDICT: Final = (Action.DISABLE, Action.LIMIT_BATCH)


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
        """Newest drafts with a verdict, of a schedule that pauses."""
        self.keep(longest)

    def keep(self, longest: float) -> None:
        """Use another longest window, and start without advice."""
        self._longest = longest
        self._debounce: Debounce[Advice] = Debounce(longest)
        self._advised_at = -inf
        self._changes = 0
        self._held: _HeldSetting | None = None

    def evaluate(
        self,
        windows: Sequence[Window],
        known: Knowledge,
        latencies: Mapping[Latency, Buckets],
        now: float,
    ) -> Evaluation:
        """Return the evaluation at ``now`` (monotonic), with debounced advice; see ``Evaluation``."""
        evaluation = Evaluation(windows, known, latencies)
        if known.changes != self._changes:
            self.keep(self._longest)
            self._changes = known.changes
        if not known.speculation.schedule.pauses:
            self.last_drafts = None
        elif evaluation.is_advisable and columns(evaluation.evaluated.window.increments, "drafts")[0][-1]:
            self.last_drafts = LastDrafts(evaluation.evaluated.window, known.wall, known.changes)
        evaluation.advice = self._advice(evaluation, now)
        evaluation.held_setting = partial(self._setting, now)
        return evaluation

    def _advice(self, evaluation: Evaluation, now: float) -> Advice:
        """Return the debounced advice; none without a verdict of a whole window.

        The last advice returns if there is a verdict again within a longest window: it must not flicker while
        drafts are only just enough.
        """
        if not evaluation.is_advisable:
            if now - self._advised_at >= self._longest:
                self._debounce = Debounce(self._longest)
            return Advice()
        self._advised_at = now
        seconds = min(self._longest, evaluation.evaluated.window.seconds)
        advice = self._debounce.offer(evaluation.own_advice, now, seconds)
        if advice.action in _NEEDS_A_BAD_VERDICT and evaluation.verdict not in NOT_PAYING:
            self._debounce = Debounce(self._longest)
            advice = self._debounce.offer(evaluation.own_advice, now)
        return advice

    def _setting(self, now: float, evaluation: Evaluation) -> SpeculationSetting:
        """Return the recommended setting, for ``SETTING_SECONDS`` the same one.

        Comparing all loads takes longer than the rest of an evaluation, and a setting that is to be copied
        must not change each second.
        """
        known, held = evaluation.known, self._held
        assumed = known.speculation, known.cost.settings, known.policy
        basis = (evaluation.shown_advice, *assumed, known.data_parallel, known.changes)
        if held is None or held.basis != basis or now - held.moment >= SETTING_SECONDS:
            held = self._held = _HeldSetting(evaluation.own_setting, basis, now)
        return held.setting
