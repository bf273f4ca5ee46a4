"""State, decision (verdict and advice as one) and setting that are shown: each changes by one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from operator import attrgetter
from typing import Final

from spec_decode_exporter.analysis.evaluation import Evaluation, Shown
from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING, SpeculationSetting
from spec_decode_exporter.analysis.verdict import NOT_PAYING, PAYING, Action, Decision, State, Verdict
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.snapshot import EngineSnapshot

STAYED_SECONDS: Final = 180.0  # for which another decision must be offered without interruption
ABSENT_SECONDS: Final = 360.0  # for which the shown decision must be absent while several others alternate
DOUBT_SECONDS: Final = 60.0  # "pays" stays so long if only doubt is new: by chance, 30 s raise it for less
SETTING_SECONDS: Final = 300.0  # least between two computations of the setting, which take milliseconds
_BAD_NEWS: Final = {Verdict.UNCLEAR, *NOT_PAYING}
_FAULTS: Final = {State.STALLED, State.UNREACHABLE}
_printed: Final = attrgetter("tokens", "schedule")  # what is copied; speed-ups beside it always vary


class DecisionMonitor:
    """What is shown of one engine from one evaluation to the next, and the events of its changes."""

    def __init__(self) -> None:
        """Begin before the first evaluation."""
        self.state: State | None = None  # state of the last events
        self._decision = ShownDecision()
        self._setting = self._newest_setting = UNKNOWN_SETTING
        self._basis: object = None
        self._computed_at = -inf
        self._is_cost_known = False
        self._recorded = Decision()  # verdict and advice of the last events

    def reset(self, *, forget_cost: bool = False) -> None:
        """Show the next decision at once; ``forget_cost`` if the known cost was of another K."""
        self._decision.reset()
        self._is_cost_known = self._is_cost_known and not forget_cost

    def show(self, evaluation: Evaluation, now: float, basis: object, *, is_dropped: bool) -> Shown:
        """Return the decision and the setting to show, after those of the newest windows are offered.

        ``basis`` has the inputs of the setting besides windows and decision.
        """
        cost, speedup = evaluation.longest.cost, evaluation.verdict_window.speedup_bounds
        is_cost_known = cost is not None and not cost.is_typical
        is_stalled, was_stalled = evaluation.state is State.STALLED, self.state is State.STALLED
        if is_stalled != was_stalled or (is_cost_known and not self._is_cost_known):
            self.reset()
        self._is_cost_known |= is_cost_known
        decision = self._decision.offer(
            Decision() if is_stalled or was_stalled else evaluation.computed_decision,
            now,
            may_pay=not (evaluation.gains_nothing or (is_dropped and evaluation.is_excluded)),
            is_likely=speedup is not None and speedup.value >= evaluation.known.policy.speedup.harmful,
        )
        compute = partial(evaluation.setting_by, decision.advice)
        basis = (decision.advice, basis, self._is_cost_known)
        return decision, self.show_setting(compute, basis, now, evaluation.longest.window.length)

    def show_setting(
        self, compute: Callable[[], SpeculationSetting], basis: object, now: float, longest: float
    ) -> SpeculationSetting:
        """Return the setting to show, which is to be copied: it stays until two disjoint windows agree.

        ``compute`` returns that of the newest windows. With another ``basis``, its other inputs, it is shown
        at once. ``longest`` is the length of the longest window in seconds.
        """
        is_another = basis != self._basis
        if is_another or now - self._computed_at >= max(SETTING_SECONDS, longest):
            before, self._newest_setting = self._newest_setting, compute()
            if is_another or _printed(self._newest_setting) in (_printed(before), _printed(self._setting)):
                self._setting = self._newest_setting
            self._basis, self._computed_at = basis, now
        return self._setting

    def gone(self, *, is_bad: bool) -> Iterator[Event]:
        """Yield the event of an engine that is gone; it shows no decision."""
        self.reset()
        yield from self._state_events(State.UNREACHABLE, bad=is_bad)

    def events(self, evaluation: Evaluation, snapshot: EngineSnapshot) -> Iterator[Event]:
        """Yield what an evaluation, with its snapshot, shows and the one before did not."""
        yield from self._state_events(evaluation.state)
        yield from self._decision_events(evaluation.decision, snapshot)

    def _state_events(self, state: State, *, bad: bool | None = None) -> Iterator[Event]:
        """Yield a new state; the first state is an event only if it is a fault."""
        before, self.state = self.state, state
        if state is before or (before is None and state not in _FAULTS):
            return
        name = "drafting_stalled" if state is State.STALLED else "state_changed"
        if before is State.STALLED and state is not State.UNREACHABLE:
            name = "drafting_no_longer_stalled"
        yield Event(name, {"state": str(state), "before": str(before or "")}, bad=bad)

    def _decision_events(self, shown: Decision, snapshot: EngineSnapshot) -> Iterator[Event]:
        """Yield another verdict, and other advice; the absence of one is none."""
        before, advice = self._recorded, shown.advice
        if shown.verdict not in {before.verdict, Verdict.INSUFFICIENT}:
            self._recorded = self._recorded._replace(verdict=shown.verdict)
            fields = {
                "verdict": str(shown.verdict),
                "before": "" if before.verdict is Verdict.INSUFFICIENT else str(before.verdict),
                "findings": [finding.name for finding in snapshot.findings],
            }
            yield Event("verdict_changed", fields, bad=shown.verdict is Verdict.HARMFUL)
        if advice != before.advice and advice.action is not Action.COLLECT:
            self._recorded = self._recorded._replace(advice=advice)
            former = before.advice.action
            recommendation = {
                "recommendation": str(advice.action),
                "before": "" if former is Action.COLLECT else str(former),
                "recommended_tokens": advice.tokens,
                "verdict": str(shown.verdict),
            }
            yield Event("recommendation_changed", recommendation)


class ShownDecision:
    """Keeps a decision until another one lasts; bad news and the first advice are shown at once."""

    def __init__(self) -> None:
        """Show the first decision that is offered."""
        self.shown = self._newest = Decision()
        self._offered_since = self._shown_at = self._paid_at = -inf
        """Moments: the newest one is offered since, the shown one was offered last, and "pays" was."""
        self._paying_since = inf  # moment since which all that is offered pays, whatever its grade
        self._is_early = True  # True until the first advice: so few data may say unclear of what is not

    def offer(
        self, decision: Decision, now: float, *, may_pay: bool = True, is_likely: bool = False
    ) -> Decision:
        """Return the decision to show at ``now`` (monotonic), after that of the newest windows.

        ``may_pay`` is False if the shortest window excludes that speculation pays, at any cost or in a drop;
        ``is_likely`` is True if it pays by the best guess, whatever the bounds.
        """
        if not may_pay and decision.verdict in PAYING:
            decision = Decision()
        if decision != self._newest:
            self._newest, self._offered_since = decision, now
        if decision.verdict in PAYING:
            self._paid_at, self._paying_since = now, min(self._paying_since, now)
        else:
            self._paying_since = inf
        is_doubt = may_pay and is_likely and now - self._paid_at < DOUBT_SECONDS
        is_news = self._is_news(decision, may_pay=may_pay, is_doubt=is_doubt)
        if is_news or self._is_over(now) or decision == self.shown:
            self.shown, self._shown_at = decision, now
        self._is_early = self._is_early and self.shown.advice.action is Action.COLLECT
        return self.shown

    def reset(self) -> None:
        """Show the next decision at once: what the shown one is about has changed."""
        self.shown = self._newest = Decision()
        self._is_early = True

    def _is_news(self, decision: Decision, *, may_pay: bool, is_doubt: bool) -> bool:
        """Return whether nothing or no advice is shown yet, or whether "pays" is no longer true."""
        before, paid = self.shown, self.shown.verdict in PAYING
        is_doubted = is_doubt and decision.verdict is Verdict.UNCLEAR
        is_bad = not may_pay or (decision.verdict in _BAD_NEWS and not is_doubted)
        is_early = self._is_early and before.verdict is Verdict.UNCLEAR
        if before.verdict is Verdict.INSUFFICIENT or is_early or (paid and is_bad):
            return True
        is_better = not paid and decision.verdict in PAYING
        is_first = before.advice.action is Action.COLLECT and decision.advice.action is not Action.COLLECT
        return is_first and not is_better

    def _is_over(self, now: float) -> bool:
        is_known = self.shown.verdict is Verdict.UNCLEAR and now - self._paying_since >= STAYED_SECONDS
        is_steady = now - self._offered_since >= STAYED_SECONDS
        return is_steady or is_known or now - self._shown_at >= ABSENT_SECONDS
