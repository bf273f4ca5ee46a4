"""Throttle: limit periodic work to one execution an interval."""

from __future__ import annotations

from math import inf, isfinite


class Throttle:
    """Decide when periodic work is due: immediately, then once an interval.

    A phase makes the second execution earlier. It spreads the work of objects that were created together.
    """

    def __init__(self, interval: float, phase: float = 0.0) -> None:
        """Be due every ``interval`` seconds; the second time earlier by ``phase`` (0 to 1) intervals."""
        self.interval = interval
        """Seconds."""
        self._phase = phase
        self.reset()

    def reset(self) -> None:
        """Be due immediately."""
        self._due = -inf

    def is_due(self, now: float, early: float = 0.0) -> bool:
        """Return whether the work is due at ``now`` (monotonic), or within ``early`` seconds."""
        return now >= self._due - early

    def done(self, now: float) -> None:
        """Start the next interval at ``now``."""
        self._due = now + self.interval * (1 if isfinite(self._due) else 1 - self._phase)
