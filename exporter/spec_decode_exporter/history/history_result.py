"""Result of reading a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spec_decode_exporter.history.engine_slots import TimedEvent
from spec_decode_exporter.history.history_setting import HistorySetting
from spec_decode_exporter.history.slot_evaluation import SlotResult
from spec_decode_exporter.learned.baseline import PlainPeriod


@dataclass(frozen=True, slots=True)
class EngineHistoryResult:
    """History of one engine."""

    target: str
    labels: Mapping[str, str]
    """Labels that identify the server."""
    model_name: str
    engine: str
    interval: float
    """Seconds between two scrapes."""
    scrapes: int
    slots: Sequence[SlotResult]
    """In the order of time."""
    events: Sequence[TimedEvent]
    """Drops and resets, in the order of time."""
    plain_periods: Sequence[PlainPeriod]
    """Periods without speculation."""
    setting: HistorySetting | None = None
    """Draft tokens by load that would have been best; None without drafts."""


@dataclass(frozen=True, slots=True)
class HistoryResult:
    """History of all engines between two Unix times."""

    source: str
    """Address of the server that it was read from."""
    begin: float
    end: float
    slot_seconds: float
    engines: Sequence[EngineHistoryResult]
    notes: Sequence[str] = ()
    """Remarks about the reading: duplicates, clocks, unreadable scrapes."""
    incomplete: str = ""
    """Reason why the report covers only a part; empty if it is complete."""
