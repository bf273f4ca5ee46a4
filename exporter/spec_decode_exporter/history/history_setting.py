"""Draft tokens by load that would have been best: the setting of ``recommend``, over a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting, setting_by_load
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.history.engine_slots import PlainPeriods, Slot
from spec_decode_exporter.history.history_summary import best_tokens
from spec_decode_exporter.history.slot_evaluation import SlotResult, last_knowledge
from spec_decode_exporter.window.history import Window


@dataclass(frozen=True, slots=True)
class HistorySetting:
    """Best setting by load with the last number of draft tokens, or why it is unknown."""

    setting: SpeculationSetting | None
    """None unless the cost is known at several loads."""
    speculation: Speculation
    loads: tuple[float, ...]
    """Running requests at which the cost was measured, ascending."""


def best_setting(
    slots: Sequence[Slot],
    results: Sequence[SlotResult],
    periods: PlainPeriods,
    assumptions: Assumptions,
    *,
    data_parallel: bool,
) -> HistorySetting | None:
    """Return the setting that would have been best; None without drafts.

    Acceptance is that of all slots with the last K; the cost by load that at the end of the last of them.

    Args:
        slots: Slots of an engine, in the order of time.
        results: Their evaluations.
        periods: Periods without speculation.
        assumptions: Knowledge of the engine besides its counters.
        data_parallel: Its server has several engines.
    """
    drafted = [slot for slot in slots if slot.tokens and slot.window.total.drafts]
    if not drafted:
        return None
    tokens = drafted[-1].tokens
    best = best_tokens(result for result in results if result.tokens == tokens)
    known = replace(last_knowledge(drafted, periods, assumptions), data_parallel=data_parallel)
    window = Window.over_time([slot.window for slot in drafted if slot.tokens == tokens])
    loads = {point.running_requests for curve in known.cost.measured for point in curve.points}
    return HistorySetting(
        setting_by_load(WindowEvaluation(window, known), max(tokens, best.best if best else 0)),
        assumptions.speculation,
        tuple(sorted(loads)),
    )
