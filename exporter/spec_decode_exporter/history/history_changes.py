"""Changes of an engine's history: restarts, other draft tokens, and drops of the acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spec_decode_exporter.history.engine_slots import TimedEvent
from spec_decode_exporter.history.history_summary import MeanSpeedup, mean_speedup
from spec_decode_exporter.history.slot_evaluation import Outcome, SlotResult

SIDE_SECONDS: Final = 24 * 3600.0
"""Time before and after a change that is compared, at most."""
_BEGINS: Final = {"acceptance_dropped", "drafting_dropped"}
_ENDS: Final = {
    "acceptance_recovered": True,
    "drafting_recovered": True,
    "acceptance_baseline_reset": False,
    "drafting_baseline_reset": False,
}
"""Events that end a drop, and whether it is over: after a reset of its baseline the low value is normal."""


@dataclass(frozen=True, slots=True)
class Side:
    """An engine before or after a change."""

    tokens: int
    """K; 0 without speculation."""
    speedup: MeanSpeedup | None
    acceptance_length: float | None
    step_seconds: float | None
    """Mean time of a decode step."""
    first_token_seconds: float | None
    """Mean time to first token."""
    seconds: float


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A restart of the server, maybe with another K."""

    time: float
    """Unix time."""
    before: Side
    after: Side

    @property
    def name(self) -> str:
        """Name of the change."""
        before, after = self.before.tokens, self.after.tokens
        if before == after:
            return "restart"
        if not before:
            return f"speculation enabled with {after} draft tokens"
        return f"{after} draft tokens instead of {before}" if after else "speculation disabled"

    @property
    def speedup_differs(self) -> bool | None:
        """Return whether the bounds of the speed-ups have nothing in common; None if one is unknown.

        No speculation is a speed-up of exactly 1.
        """
        before, after = (_bounds(side) for side in (self.before, self.after))
        if before is None or after is None:
            return None
        return before[1] < after[0] or after[1] < before[0]


@dataclass(frozen=True, slots=True)
class HistoryDrop:
    """A drop of the acceptance, or of the share of steps with a draft."""

    kind: str
    begin: float
    """Unix time."""
    end: float | None
    """Unix time; None if it was not over at the end of the history."""
    recovered: bool
    """False if the acceptance stayed low, so that the low value became the baseline."""
    before: float
    """Tokens of a draft, or of a step, before it."""
    after: float

    @property
    def depth(self) -> float:
        """Return the drop relative to the value before."""
        return 1 - self.after / self.before


def changes(slots: Sequence[SlotResult]) -> Iterator[HistoryChange]:
    """Yield the changes between two processes or two values of K, oldest first."""
    runs: list[list[SlotResult]] = []
    for slot in slots:
        if slot.outcome is Outcome.IDLE:
            continue
        if runs and _process(runs[-1][-1]) == _process(slot):
            runs[-1].append(slot)
        else:
            runs.append([slot])
    for earlier, later in pairwise(runs):
        time = later[0].begin
        before = [slot for slot in earlier if slot.end > earlier[-1].end - SIDE_SECONDS]
        after = [slot for slot in later if slot.begin < time + SIDE_SECONDS]
        yield HistoryChange(time, _side(before), _side(after))


def drops(events: Sequence[TimedEvent]) -> Iterator[HistoryDrop]:
    """Yield the drops, in the order of their ends."""
    open_drops: dict[str, tuple[float, float, float]] = {}
    for timed in events:
        name, fields = timed.event.name, timed.event.fields
        kind = str(fields.get("kind"))
        if name in _BEGINS:
            began = timed.time - _number(fields["seconds"])
            open_drops[kind] = began, _number(fields["baseline_length"]), _number(fields["length"])
        elif name in _ENDS and kind in open_drops:
            began, before, after = open_drops.pop(kind)
            yield HistoryDrop(kind, began, timed.time, _ENDS[name], before, after)
    for kind, (began, before, after) in open_drops.items():
        yield HistoryDrop(kind, began, None, False, before, after)


def _process(slot: SlotResult) -> tuple[int, int]:
    return slot.process, slot.tokens


def _side(slots: Sequence[SlotResult]) -> Side:
    drafts = sum(slot.drafts for slot in slots)
    accepted = sum(slot.accepted_tokens for slot in slots)
    return Side(
        slots[-1].tokens,
        mean_speedup(slots),
        1 + accepted / drafts if drafts else None,
        _mean([slot.step_seconds for slot in slots]),
        _mean([slot.first_token_seconds for slot in slots]),
        sum(slot.seconds for slot in slots),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _bounds(side: Side) -> tuple[float, float] | None:
    if not side.tokens:
        return 1.0, 1.0
    return None if side.speedup is None else (side.speedup.lower, side.speedup.upper)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
