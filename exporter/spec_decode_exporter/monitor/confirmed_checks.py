"""Broken identities of an engine's counters, confirmed by two successive polls: one page can be torn."""

from __future__ import annotations

from spec_decode_exporter.analysis.integrity import Check, broken_checks
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.engine_events import check_event
from spec_decode_exporter.window.engine_history import EngineHistory
from spec_decode_exporter.window.increments import Counts


class ConfirmedChecks:
    """Checks the identities at every poll."""

    def __init__(self) -> None:
        self._suspected = frozenset[Check]()
        self.broken = frozenset[Check]()
        """Identities that are broken."""

    def observe(self, counts: Counts, history: EngineHistory) -> list[Event]:
        """Check the counts of a poll, which ``history`` contains; return the events of changes."""
        suspected = broken_checks(counts, history.tokens)
        confirmed = suspected & self._suspected
        if history.alternates:
            confirmed |= {Check.ONE_SERVER}
        changed = confirmed ^ self.broken
        self._suspected, self.broken = suspected, confirmed
        return [check_event(check, counts, broken=check in confirmed) for check in sorted(changed)]
