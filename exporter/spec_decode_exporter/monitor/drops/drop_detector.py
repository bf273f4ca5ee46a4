"""Drop detector of one engine: sudden and slow drops of the acceptance length, and drops of drafting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drop import ALWAYS_COUNTED, DropChange, DropKind, DropStatus
from spec_decode_exporter.monitor.drops.drafting_drop import DraftingDropDetector
from spec_decode_exporter.monitor.drops.interval import Interval
from spec_decode_exporter.monitor.drops.slow_drop import SlowDropDetector, SlowState
from spec_decode_exporter.monitor.drops.sudden_drop import (
    INTERVAL_SECONDS,
    LAG_SECONDS,
    SuddenDropDetector,
    SuddenState,
)
from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS
from spec_decode_exporter.window.poll import Increment

RECENT_SECONDS: Final = 30.0
_ODD: Final = range(1, 2 * MAX_POSITIONS, 2)


@dataclass(slots=True)
class DropState:
    """Persisted state of all detectors."""

    sudden: SuddenState
    slow: SlowState
    drafting: SuddenState = field(default_factory=SuddenState)


_STATE: Final = TypeAdapter(DropState)


class DecodeSteps(NamedTuple):
    """Decode steps of an increment."""

    number: int
    """S."""
    searches: bool
    """True if the method is known to search for text; False if the method is unknown."""


class DropDetector:
    """Detects drops of one engine, as long as it drafts with one method and one K."""

    def __init__(self, policy: DropPolicy) -> None:
        self._sudden = SuddenDropDetector(policy)
        self._slow = SlowDropDetector(policy)
        self._drafting = DraftingDropDetector(policy)
        self._drops = dict.fromkeys(ALWAYS_COUNTED, 0)

    @property
    def policy(self) -> DropPolicy:
        """Thresholds of a drop; they may be replaced at any time."""
        return self._sudden.policy

    @policy.setter
    def policy(self, policy: DropPolicy) -> None:
        self._sudden.policy = self._slow.policy = self._drafting.policy = policy

    def observe(
        self, increment: Increment, *, wall: float = 0.0, steps: DecodeSteps | None = None
    ) -> tuple[DropChange, ...]:
        """Add an increment; return the drops that it begins or ends.

        Args:
            increment: Increment of an engine; only its length and its drafts count.
            wall: End in Unix time; 0 if unknown. Then no hour of the day is compared.
            steps: Decode steps of an engine whose drafting may drop; None if that is unknown or impossible.
        """
        interval = _interval(increment, wall)
        try:
            changes = (
                self._sudden.observe(interval),
                self._slow.observe(interval),
                self._observe_steps(interval, steps),
            )
        except ArithmeticError:  # the restored state holds impossible numbers
            self.start_again()
            return ()
        complete = tuple(filter(None, changes))
        for change in complete:
            self._drops[change.kind] += change.dropped
        return complete

    def _observe_steps(self, interval: Interval, steps: DecodeSteps | None) -> DropChange | None:
        """Add the decode steps of an interval; without them the detector of drafting is reset.

        Two detectors share the budget of false alarms, so that their total stays within it.
        """
        detector = self._drafting
        detector.shared_by = self._sudden.shared_by = 1 if steps is None else 2
        if steps is None:
            if detector.state.intervals.elapsed:
                detector.restore(SuddenState())
            return None
        detector.searches = steps.searches
        self._drops.setdefault(DropKind.DRAFTING, 0)
        return detector.observe(replace(interval, drafts=steps.number, drafted=interval.drafts))

    def start_again(self) -> None:
        """Reset the baselines; the counts of drops stay."""
        self._sudden.restore(SuddenState())
        self._drafting.restore(SuddenState())
        self._slow.restore(SlowState())

    def status(self) -> DropStatus:
        """Return the present status."""
        sudden = self._sudden
        known = {each.kind: each.dropped for each in (sudden, self._slow, self._drafting)}
        dropped = {kind: is_so for kind, is_so in known.items() if is_so is not None}
        lives = {each.kind: each.live() for each in (sudden, self._drafting)}
        live = {kind: drop for kind, drop in lives.items() if drop is not None}
        if not sudden.variances:
            return DropStatus(dropped=dropped, drops=dict(self._drops), live=live)
        baseline = sudden.state.baseline
        recent = sudden.state.intervals.newer_than(LAG_SECONDS + INTERVAL_SECONDS)
        return DropStatus(
            baseline.length,
            sudden.error(RECENT_SECONDS * baseline.drafts_per_second),
            (baseline.length - recent.length) / sudden.error(recent.drafts) if recent else None,
            dropped,
            dict(self._drops),
            live,
        )

    def saved(self) -> dict[str, Any]:
        """Return the learned state as plain values for JSON, without values that are as in a new detector."""
        state = DropState(self._sudden.state, self._slow.state, self._drafting.state)
        saved: dict[str, Any] = _STATE.dump_python(state, mode="json", by_alias=True, exclude_defaults=True)
        return saved

    def restore(self, saved: Mapping[str, Any]) -> bool:
        """Continue from the result of ``saved``; return False and change nothing if it is invalid."""
        sudden, slow = SuddenDropDetector(self.policy), SlowDropDetector(self.policy)
        drafting = DraftingDropDetector(self.policy)
        try:
            state = _STATE.validate_python(saved)
            sudden.restore(state.sudden)
            slow.restore(state.slow)
            drafting.restore(state.drafting)
        except (ValueError, ArithmeticError):
            return False
        self._sudden, self._slow, self._drafting = sudden, slow, drafting
        return True


def _interval(increment: Increment, wall: float) -> Interval:
    _, _, accepted, *_ = its = increment.counters
    seconds = increment.end - increment.begin
    return Interval(seconds, its.drafts, accepted, squares(accepted, increment.positions), wall=wall)


def squares(accepted: int, positions: Sequence[int]) -> int:
    """Return Σ over the drafts of (accepted tokens)², which is Σ (2i+1) a_i; at least A without positions."""
    return sum(map(mul, _ODD, positions)) if positions else accepted
