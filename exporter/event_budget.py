"""Limit the events of one target: a server that flaps with every poll must not fill the log."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from exporter.event import Event
from exporter.scrape.plan import MOST_ENGINES

if TYPE_CHECKING:
    from exporter.event_log import EventLog

BURST: Final = 4 * MOST_ENGINES
"""Events of a target at once: a restart of a server with the most engines has four for each."""
EVERY: Final = 6.0
"""Seconds after which one more is allowed."""
SAID_AGAIN: Final = 600.0
"""Seconds after which the log repeats that events are left out."""


class EventBudget:
    """Passes on the events of one target to the event log, up to a rate."""

    def __init__(self, events: EventLog, now: Callable[[], float]) -> None:
        """Pass on to ``events``; ``now`` returns monotonic seconds."""
        self._events = events
        self._now = now
        self._left = float(BURST)
        self._refilled_at = now()
        self._omitted = 0
        self._told_at = -inf

    def record(self, event: Event, wall: float, target: str, engine: tuple[str, str] | None = None) -> None:
        """Record an event; see ``EventLog``. Beyond the rate count it instead, and log that once."""
        now = self._now()
        self._left = min(float(BURST), self._left + (now - self._refilled_at) / EVERY)
        self._refilled_at = now
        if self._left >= 1:
            self._left -= 1
            self._events.record(event, wall, target, engine)
            return
        self._omitted += 1
        if now - self._told_at >= SAID_AGAIN:
            self._told_at = now
            fields: dict[str, object] = {"omitted": self._omitted, "example": event.name}
            self._events.record(Event("events_omitted", fields, is_bad=True), wall, target)
