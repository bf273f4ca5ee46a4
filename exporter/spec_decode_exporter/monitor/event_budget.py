"""Limit events: neither a server that flaps nor a list that changes all its targets may fill the log."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.token_bucket import TokenBucket
from spec_decode_exporter.scrape.page.layout_map import MOST_ENGINES

if TYPE_CHECKING:
    from spec_decode_exporter.monitor.event_log import EventLog

BURST: Final = 4 * MOST_ENGINES
"""Events of a target at once: a restart of a server with the most engines has four for each."""
EVERY: Final = 6.0
"""Seconds after which one more is allowed."""
SAID_AGAIN: Final = 600.0
"""Seconds after which the log repeats that events are left out."""


class EventBudget:
    """Passes on the events of one target, or of all targets of one list, to the event log, up to a rate."""

    def __init__(
        self,
        events: EventLog | EventBudget,
        now: Callable[[], float],
        *,
        burst: int = BURST,
        every: float = EVERY,
        discovery: str = "",
    ) -> None:
        """Pass on to ``events``; ``now`` returns monotonic seconds.

        Args:
            events: Takes the events that are within the rate.
            now: Monotonic clock.
            burst: Events at once.
            every: Seconds after which one more is allowed.
            discovery: The kind of the list whose targets share the budget; empty for one target alone.
        """
        self._events = events
        self._now = now
        self._bucket = TokenBucket(burst, every, now)
        self._discovery = discovery
        self._omitted = 0
        self._told_at = -inf

    def record(self, event: Event, wall: float, target: str, engine: tuple[str, str] | None = None) -> None:
        """Record an event; see ``EventLog``. Beyond the rate count it instead, and log that once."""
        if self._bucket.take():
            self._events.record(event, wall, target, engine)
            return
        self._omitted += 1
        now = self._now()
        if now - self._told_at >= SAID_AGAIN:
            self._told_at = now
            fields: dict[str, object] = {
                "omitted": self._omitted,
                "example": event.name,
                "discovery": self._discovery,
            }
            whose = "" if self._discovery else target
            self._events.record(Event("events_omitted", fields, is_bad=True), wall, whose)
