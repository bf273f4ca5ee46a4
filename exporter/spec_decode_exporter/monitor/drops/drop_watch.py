"""Whether the acceptance of an engine dropped below what is usual for it, suddenly or slowly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from operator import mul
from typing import Any, Final

from pydantic import TypeAdapter

from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind
from spec_decode_exporter.analysis.drops.interval import Interval
from spec_decode_exporter.analysis.drops.noise import variance_of
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.slow_drop import SlowDropDetector, SlowState
from spec_decode_exporter.monitor.drops.sudden_drop import SuddenDropDetector, SuddenState
from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS

RECENT_SECONDS: Final = 30.0
_ODD: Final = range(1, 2 * MAX_POSITIONS, 2)


@dataclass(slots=True)
class DropState:
    """Everything that is learnt of an engine."""

    sudden: SuddenState
    slow: SlowState


_STATE: Final = TypeAdapter(DropState)


@dataclass(frozen=True, slots=True)
class DropStatus:
    """How the acceptance of an engine stands against its baseline. What has no value is None."""

    baseline_length: float | None = None
    """The acceptance length that is usual, in tokens, by the drafts of about the last half hour."""
    baseline_stddev: float | None = None
    """How far the acceptance length over 30 s strays from the baseline by chance: its standard deviation, in
    tokens, with as many drafts as are usual. That the baseline is not known exactly is included."""
    sigma: float | None = None
    """How far the acceptance length of the last drafts that are not in the baseline, of 20 to 25 s, is below
    it, in standard errors; negative if it is above."""
    dropped: Mapping[DropKind, bool] = field(default_factory=dict)
    """By kind, as far as enough was seen to judge by."""
    drops: Mapping[DropKind, int] = field(default_factory=lambda: dict.fromkeys(DropKind, 0))
    """How many were found since the watch began."""


class DropDetector:
    """Watches one engine, as long as it drafts with one method and one K."""

    def __init__(self, policy: DropPolicy) -> None:
        """Watch by a policy."""
        self._sudden = SuddenDropDetector(policy)
        self._slow = SlowDropDetector(policy)
        self._drops = dict.fromkeys(DropKind, 0)

    @property
    def policy(self) -> DropPolicy:
        """What is called a drop; it may be replaced at any time."""
        return self._sudden.policy

    @policy.setter
    def policy(self, policy: DropPolicy) -> None:
        self._sudden.policy = self._slow.policy = policy

    def observe(
        self, begin: float, end: float, drafts: int, accepted: int, positions: Sequence[int]
    ) -> tuple[DropChange, ...]:
        """Take an increment; return the drops that it begins or ends.

        ``begin`` and ``end`` are seconds, of which only the difference counts. ``accepted`` are the accepted
        tokens of all positions, ``positions`` those of each.
        """
        increment = Interval(end - begin, drafts, accepted, squares(accepted, positions))
        try:
            changes = self._sudden.observe(increment), self._slow.observe(increment)
        except ArithmeticError:  # what was remembered is what no engine can have done
            self.start_again()
            return ()
        found = tuple(change for change in changes if change)
        for change in found:
            self._drops[change.kind] += change.dropped
        return found

    def start_again(self) -> None:
        """Forget what was learnt, as if the engine was seen for the first time; what was counted stays."""
        self._sudden.restore(SuddenState())
        self._slow.restore(SlowState())

    def status(self) -> DropStatus:
        """Return how acceptance stands now."""
        sudden = self._sudden
        known = {DropKind.SUDDEN: sudden.dropped, DropKind.SLOW: self._slow.dropped}
        dropped = {kind: is_so for kind, is_so in known.items() if is_so is not None}
        if not sudden.variances:
            return DropStatus(dropped=dropped, drops=dict(self._drops))
        baseline, recent = sudden.state.baseline, sudden.state.stretches.newer_than(RECENT_SECONDS)
        return DropStatus(
            baseline.length,
            self._error(RECENT_SECONDS * baseline.drafts_per_second),
            (baseline.length - recent.length) / self._error(recent.drafts) if recent else None,
            dropped,
            dict(self._drops),
        )

    def _error(self, drafts: float) -> float:
        """Return the standard error of how far the length of so many drafts is from the baseline."""
        variances, known = self._sudden.variances, self._sudden.state.baseline.effective_drafts
        return sqrt(variance_of(drafts, variances) / drafts + variances[0].value / known)

    def saved(self) -> dict[str, Any]:
        """Return what was learnt, in a form that JSON can hold."""
        saved: dict[str, Any] = _STATE.dump_python(
            DropState(self._sudden.state, self._slow.state), mode="json"
        )
        return saved

    def restore(self, saved: Mapping[str, Any]) -> bool:
        """Go on with what ``saved`` returned; return whether it was understood. If not, nothing changes."""
        sudden, slow = SuddenDropDetector(self.policy), SlowDropDetector(self.policy)
        try:
            state = _STATE.validate_python(saved)
            sudden.restore(state.sudden)
            slow.restore(state.slow)
        except (ValueError, ArithmeticError):
            return False
        self._sudden, self._slow = sudden, slow
        return True


def squares(accepted: int, positions: Sequence[int]) -> int:
    """Return Σ over the drafts of (accepted tokens)², which is Σ (2i+1) a_i; at least A without positions."""
    return sum(map(mul, _ODD, positions)) if positions else accepted
