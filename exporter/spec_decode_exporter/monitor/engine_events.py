"""What happens to an engine and belongs into the log: each is said once, when it begins and when it ends."""

from __future__ import annotations

from spec_decode_exporter.analysis.drops.drop import DropChange
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.core.debounce import Debounce
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Counts, PollStep

TOLD_AFTER = 60.0
"""Seconds for which a verdict must stand before the log tells it: at a threshold it may go back and forth."""


def reset_events(taken: PollStep) -> list[Event]:
    """Tell that the server's counters began anew."""
    if taken.reset is None:
        return []
    fields = {"cause": str(taken.reset), "counted_since_restart": taken.increment is not None}
    return [Event("engine_reset", fields)]


def check_event(check: Check, counts: Counts, *, broken: bool) -> Event:
    """Tell that an identity of the counters is broken, or holds again, with the numbers."""
    fields: dict[str, object] = {
        "check": str(check),
        "drafts": counts.counters[Counter.DRAFTS],
        "draft_tokens": counts.counters[Counter.DRAFT_TOKENS],
        "accepted_tokens": counts.counters[Counter.ACCEPTED_TOKENS],
        "accepted_by_position": list(counts.positions),
    }
    return Event("check_broken" if broken else "check_holds_again", fields, is_bad=broken)


def drop_event(change: DropChange) -> Event:
    """Tell that the acceptance dropped, or recovered."""
    fields: dict[str, object] = {
        "kind": str(change.kind),
        "baseline_acceptance_length": round(change.baseline_length, 3),
        "acceptance_length": round(change.length, 3),
        "seconds": round(change.seconds, 1),
    }
    name = "acceptance_dropped" if change.dropped else "acceptance_recovered"
    if change.learned_again:
        name = "acceptance_baseline_learnt_anew"
    return Event(name, fields, is_bad=change.dropped)


class EngineChangeNotifier:
    """Tells what changes in the judgements of one engine."""

    def __init__(self) -> None:
        self._verdict: Debounce[Verdict] = Debounce(TOLD_AFTER)
        self._told: Verdict | None = None
        self._advice: tuple[Action, int | None] | None = None
        self._state: State | None = None
        self._tokens = 0
        self._beginnings = 0

    def tell(self, evaluation: Evaluation, now: float, tokens: int = 0, beginnings: int = 0) -> list[Event]:
        """Return what the log has not been told yet.

        Args:
            evaluation: Of a window that is not empty.
            now: Monotonic, in seconds.
            tokens: K, 0 where it is not known.
            beginnings: How often windows began anew because K, or the method, became another.
        """
        return [
            *self._tell_tokens(tokens, beginnings),
            *self._tell_state(evaluation),
            *self._tell_verdict(evaluation, now),
            *self._tell_advice(evaluation),
        ]

    def tell_gone(self, *, is_bad: bool) -> list[Event]:
        """Tell once that the engine was not seen for too long, until ``tell`` says what it does again."""
        before, self._state = self._state, State.UNREACHABLE
        if before is State.UNREACHABLE:
            return []
        fields: dict[str, object] = {"state": str(State.UNREACHABLE), "before": str(before or "")}
        return [Event("state_changed", fields, is_bad=is_bad)]

    def _tell_state(self, evaluation: Evaluation) -> list[Event]:
        """Tell another state than the last; the first one is news only if it is a fault."""
        state, before = evaluation.state, self._state
        self._state = state
        stalled = state is State.STALLED
        if state is before or (before is None and not stalled):
            return []
        fields: dict[str, object] = {"state": str(state), "before": str(before or "")}
        ended = "drafting_no_longer_stalled" if before is State.STALLED else "state_changed"
        return [Event("drafting_stalled" if stalled else ended, fields, is_bad=stalled)]

    def _tell_tokens(self, tokens: int, beginnings: int) -> list[Event]:
        """Tell another K. It is no news that a server shows more of its positions: then no window began."""
        before, self._tokens = self._tokens, tokens or self._tokens
        if beginnings == self._beginnings:
            return []
        self._beginnings, self._tokens = beginnings, tokens
        if tokens == before:  # the method is another
            return []
        return [Event("configured_tokens_changed", {"configured_tokens": tokens, "before": before})]

    def _tell_verdict(self, evaluation: Evaluation, now: float) -> list[Event]:
        """Tell another verdict than the last one; that nothing can be said for a while is no news."""
        if evaluation.verdict is Verdict.INSUFFICIENT:
            return []
        verdict = self._verdict.offer(evaluation.verdict, now)
        if verdict is self._told or verdict is not evaluation.verdict:
            return []
        before, self._told = self._told, verdict
        fields: dict[str, object] = {
            "verdict": str(verdict),
            "before": str(before or ""),
            "findings": [str(finding.name) for finding in evaluation.findings],
        }
        return [Event("verdict_changed", fields, is_bad=verdict is Verdict.HARMFUL)]

    def _tell_advice(self, evaluation: Evaluation) -> list[Event]:
        """Tell other advice than the last; that there is none for a while is no news."""
        depth = evaluation.recommended
        advice = evaluation.action, None if depth is None else depth.tokens
        if evaluation.action is Action.COLLECT or advice == self._advice:
            return []
        before, self._advice = self._advice, advice
        fields: dict[str, object] = {
            "recommendation": str(evaluation.action),
            "before": str(before[0]) if before else "",
            "recommended_tokens": advice[1],
            "verdict": str(evaluation.verdict),
        }
        return [Event("recommendation_changed", fields)]
