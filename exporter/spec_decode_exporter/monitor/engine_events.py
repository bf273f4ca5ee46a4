"""Events of one engine: each is emitted once, when a condition begins and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.verdict import Action, Advice, State, Verdict
from spec_decode_exporter.core.debounce import Debounce
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.drops.sums import Drop, DropKind
from spec_decode_exporter.findings.finding import Finding
from spec_decode_exporter.window.poll import Check, Poll, Step

LOGGED_AFTER = 60.0
"""Seconds for which a verdict must last before its event: at a threshold it may alternate."""


def reset_events(step: Step) -> list[Event]:
    """Return the event of a reset of the server's counters."""
    if step.reset is None:
        return []
    fields = {"cause": str(step.reset), "counted_since_restart": step.increment is not None}
    return [Event("engine_reset", fields)]


def check_event(check: Check, poll: Poll, *, broken: bool) -> Event:
    """Return the event of an identity of the counters that breaks or holds again, with its numbers."""
    fields: dict[str, object] = {
        "check": str(check),
        "drafts": poll.counters.drafts,
        "draft_tokens": poll.counters.draft_tokens,
        "accepted_tokens": poll.counters.accepted_tokens,
        "accepted_by_position": list(poll.positions),
    }
    return Event("check_broken" if broken else "check_holds_again", fields)


def drop_event(drop: Drop, wall: float) -> Event:
    """Return the event of a drop that begins or ends; ``wall`` is the Unix time of the poll."""
    began = _utc(wall - drop.age) if drop.age is not None else ""
    if drop.kind is DropKind.DRAFTING:
        return _drafting_event(drop, began)
    fields: dict[str, object] = {
        "kind": str(drop.kind),
        "baseline_acceptance_length": round(drop.baseline_length, 3),
        "acceptance_length": round(drop.length, 3),
        "seconds": round(drop.seconds, 1),
        "since": began,
    }
    name = f"acceptance_{drop.transition}"
    return Event(name, fields)


def _drafting_event(drop: Drop, began: str) -> Event:
    fields: dict[str, object] = {
        "baseline_tokens_per_step": round(drop.baseline_length, 3),
        "tokens_per_step": round(drop.length, 3),
        "seconds": round(drop.seconds, 1),
        "since": began,
    }
    name = f"drafting_{drop.transition}"
    return Event(name, fields)


def _utc(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%dT%H:%M:%SZ}"


class EngineChangeNotifier:
    """Detects changes between the evaluations of one engine."""

    def __init__(self) -> None:
        self._debounce: Debounce[Verdict] = Debounce(LOGGED_AFTER)
        self._verdict: Verdict | None = None
        self._advice: Advice | None = None
        self._state: State | None = None
        self._tokens = 0
        self._window_resets = 0

    def changes(
        self,
        evaluation: Evaluation,
        now: float,
        tokens: int,
        window_resets: int,
        findings: Callable[[], Sequence[Finding]],
    ) -> list[Event]:
        """Return the events of the changes since the last call.

        Args:
            evaluation: Evaluation of windows that are not empty.
            now: Monotonic, in seconds.
            tokens: K; 0 if unknown.
            window_resets: Number of resets of the windows by another K or method.
            findings: Returns the findings, which the event of another verdict names.
        """
        return [
            *self._token_events(tokens, window_resets),
            *self._state_events(evaluation.state),
            *self._verdict_events(evaluation.verdict, now, findings),
            *self._advice_events(evaluation),
        ]

    def gone(self, *, is_bad: bool) -> list[Event]:
        """Return the event of an engine that is gone, once until ``changes`` reports its state again."""
        before, self._state = self._state, State.UNREACHABLE
        if before is State.UNREACHABLE:
            return []
        fields: dict[str, object] = {"state": str(State.UNREACHABLE), "before": str(before or "")}
        return [Event("state_changed", fields, bad=is_bad)]

    def _state_events(self, state: State) -> list[Event]:
        """Return the event of a new state; the first state is an event only if it is a fault."""
        before, self._state = self._state, state
        stalled = state is State.STALLED
        if state is before or (before is None and not stalled):
            return []
        fields: dict[str, object] = {"state": str(state), "before": str(before or "")}
        ended = "drafting_no_longer_stalled" if before is State.STALLED else "state_changed"
        return [Event("drafting_stalled" if stalled else ended, fields)]

    def _token_events(self, tokens: int, window_resets: int) -> list[Event]:
        """Return the event of another K; more visible positions alone, which reset no window, are none."""
        before, self._tokens = self._tokens, tokens or self._tokens
        if window_resets == self._window_resets:
            return []
        self._window_resets, self._tokens = window_resets, tokens
        if tokens == before:  # the method changed
            return []
        return [Event("configured_tokens_changed", {"configured_tokens": tokens, "before": before})]

    def _verdict_events(
        self, present: Verdict, now: float, findings: Callable[[], Sequence[Finding]]
    ) -> list[Event]:
        """Return the event of another verdict; ``insufficient`` is none."""
        if present is Verdict.INSUFFICIENT:
            return []
        verdict = self._debounce.offer(present, now)
        if verdict is self._verdict or verdict is not present:
            return []
        before, self._verdict = self._verdict, verdict
        fields: dict[str, object] = {
            "verdict": str(verdict),
            "before": str(before or ""),
            "findings": [finding.name for finding in findings()],
        }
        return [Event("verdict_changed", fields, bad=verdict is Verdict.HARMFUL)]

    def _advice_events(self, evaluation: Evaluation) -> list[Event]:
        """Return the event of other advice; the absence of advice is none."""
        depth = evaluation.recommended
        advice = Advice(evaluation.action, None if depth is None else depth.tokens)
        if advice.action is Action.COLLECT or advice == self._advice:
            return []
        before, self._advice = self._advice, advice
        fields: dict[str, object] = {
            "recommendation": str(advice.action),
            "before": str(before.action) if before else "",
            "recommended_tokens": advice.tokens,
            "verdict": str(evaluation.verdict),
        }
        return [Event("recommendation_changed", fields)]
