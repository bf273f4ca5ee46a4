"""Drop detector of one engine: sudden and slow drops of the acceptance length below its baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, Final

from pydantic import TypeAdapter

from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind, DropStatus
from spec_decode_exporter.analysis.drops.variance import length_error
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.interval import Interval
from spec_decode_exporter.monitor.drops.request_mix import TypeTotals, no_types
from spec_decode_exporter.monitor.drops.slow_drop import SlowDropDetector, SlowState
from spec_decode_exporter.monitor.drops.sudden_drop import SuddenDropDetector, SuddenState
from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS

RECENT_SECONDS: Final = 30.0
_ODD: Final = range(1, 2 * MAX_POSITIONS, 2)


@dataclass(slots=True)
class DropState:
    """Persisted state of both detectors."""

    sudden: SuddenState
    slow: SlowState


_STATE: Final = TypeAdapter(DropState)


class DropDetector:
    """Detects drops of one engine, as long as it drafts with one method and one K."""

    def __init__(self, policy: DropPolicy, types: TypeTotals = no_types) -> None:
        """Use ``policy``; ``types`` returns the engine's requests by type since the exporter's start."""
        self._types = types
        self._sudden = SuddenDropDetector(policy)
        self._slow = SlowDropDetector(policy, types)
        self._drops = dict.fromkeys(DropKind, 0)

    @property
    def policy(self) -> DropPolicy:
        """Thresholds of a drop; they may be replaced at any time."""
        return self._sudden.policy

    @policy.setter
    def policy(self, policy: DropPolicy) -> None:
        self._sudden.policy = self._slow.policy = policy

    def observe(
        self,
        begin: float,
        end: float,
        drafts: int,
        accepted: int,
        positions: Sequence[int],
        *,
        wall: float = 0.0,
    ) -> tuple[DropChange, ...]:
        """Add an increment; return the drops that it begins or ends.

        Args:
            begin: Begin in seconds; only the difference to ``end`` counts.
            end: End in seconds.
            drafts: D.
            accepted: Accepted tokens of all positions.
            positions: Accepted tokens of each position.
            wall: End in Unix time; 0 if unknown. Then no hour of the day is compared.
        """
        increment = Interval(end - begin, drafts, accepted, squares(accepted, positions), wall=wall)
        try:
            changes = self._sudden.observe(increment), self._slow.observe(increment)
        except ArithmeticError:  # the restored state holds impossible numbers
            self.start_again()
            return ()
        complete = tuple(change for change in changes if change)
        for change in complete:
            self._drops[change.kind] += change.dropped
        return complete

    def start_again(self) -> None:
        """Reset the baselines; the counts of drops stay."""
        self._sudden.restore(SuddenState())
        self._slow.start_again()

    def status(self) -> DropStatus:
        """Return the present status."""
        sudden = self._sudden
        known = {DropKind.SUDDEN: sudden.dropped, DropKind.SLOW: self._slow.dropped}
        dropped = {kind: is_so for kind, is_so in known.items() if is_so is not None}
        if not sudden.variances:
            return DropStatus(dropped=dropped, drops=dict(self._drops))
        baseline, recent = sudden.state.baseline, sudden.state.intervals.newer_than(RECENT_SECONDS)
        return DropStatus(
            baseline.length,
            self._error(RECENT_SECONDS * baseline.drafts_per_second),
            (baseline.length - recent.length) / self._error(recent.drafts) if recent else None,
            dropped,
            dict(self._drops),
        )

    def _error(self, drafts: float) -> float:
        """Return the standard error of the length of ``drafts`` drafts minus that of the baseline."""
        return length_error(drafts, self._sudden.variances, self._sudden.state.baseline.effective_drafts)

    def saved(self) -> dict[str, Any]:
        """Return the learned state as plain values for JSON."""
        state = DropState(self._sudden.state, self._slow.state)
        saved: dict[str, Any] = _STATE.dump_python(state, mode="json", by_alias=True)
        return saved

    def restore(self, saved: Mapping[str, Any]) -> bool:
        """Continue from the result of ``saved``; return False and change nothing if it is invalid."""
        sudden, slow = SuddenDropDetector(self.policy), SlowDropDetector(self.policy, self._types)
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
