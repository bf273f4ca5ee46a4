"""What all targets share: clock, learned state, events, places for engines, and the pace of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor, inf

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.event_log import EventLog, engine_errors
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.monitor.state import Remembered
from spec_decode_exporter.scrape.poll_record import Polled, Recorded
from spec_decode_exporter.scrape.poller import PollBudget, phase
from spec_decode_exporter.scrape.sample import MAX_ENGINES

SHORTEST_PACE, SCRAPE_PACE = 1.0, 15.0  # seconds between two evaluations of an engine, and two usual scrapes
USUAL_EVALUATIONS, MOST_EVALUATIONS = 10, 66  # of all engines, a second: up to 990 engines, and beyond


class Shared:
    """Everything that the targets share."""

    def __init__(
        self,
        clock: Clock,
        remembered: Remembered | None = None,
        *,
        spread: bool = True,
        recorded: Recorded | None = None,
    ) -> None:
        """Begin without engines.

        Args:
            clock: Clock.
            remembered: Learned state of engines of earlier processes, and baselines; by default none.
            spread: Shift rarer work by a phase of each engine, so that a fleet does not do it all at once.
            recorded: Takes each raw poll, to record it.
        """
        self.clock, self.remembered, self.recorded = clock, remembered or Remembered(), recorded
        self.events = EventLog(f"{max(0, round(clock.wall() * 1000)):x}", clock.monotonic)
        """Its run is named after the start, in milliseconds of Unix time."""
        self.errors = Isolation(clock.monotonic)
        """Isolates internal errors of readers and of targets; those of engines are events."""
        self.engine_errors = engine_errors(self.events, clock)
        self.limit, self.places_taken = MAX_ENGINES, 0
        """Places: an engine takes one, or more with long labels."""
        self.budget, self._spread = PollBudget(), spread
        self.prepare: Callable[[Mapping[str, str], EngineSnapshot, float], None] = lambda *_: None
        """Takes labels, snapshot and pace of each engine that was evaluated."""

    @property
    def pace(self) -> float:
        """Seconds between two evaluations of an engine, by the engines of all targets."""
        usual = min(self.places_taken / USUAL_EVALUATIONS, SCRAPE_PACE)
        return max(SHORTEST_PACE, usual, self.places_taken / MOST_EVALUATIONS)

    def is_due(self, engine: EngineMonitor, polled: Polled) -> bool:
        """Return whether an engine is evaluated at this poll: in its pace, or at once."""
        pace, before = self.pace, engine.evaluated_at
        if engine.is_urgent or pace <= polled.interval or before == -inf:
            return True
        shift = engine.phase + polled.interval / 2 / pace  # no poll is close to the begin of an interval
        return floor(polled.moment / pace + shift) != floor(before / pace + shift)

    def phase(self, key: str) -> float:
        """Return the part of its interval by which rarer work is shifted, 0 to 1."""
        return phase(key) if self._spread else 0.0
