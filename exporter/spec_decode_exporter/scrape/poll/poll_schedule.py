"""Poll times of one target: fixed ticks, and back-off after failures; see ``duty_cycle`` for costly polls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from math import floor
from typing import Final, Self

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.scrape.errors import Reason

MAX_BACK_OFF_REFUSED: Final = 5.0
"""Maximum back-off in seconds after a refused connection, which costs neither side anything."""
MAX_BACK_OFF: Final = 30.0
"""Maximum back-off in seconds after other failures."""
PHASES: Final = 8
"""Number of distinct poll times within an interval, of up to 400 targets.

Polls at the same time share one wake-up, a third of a poll's cost. Eight times still spread the load.
"""
MAX_PHASES: Final = 64
"""Maximum number of distinct poll times, of any number of targets."""
POLLS_OF_A_TICK: Final = 25
"""Polls at the same time from which on they are spread over twice as many times.

More would save no more wake-ups, and later polls of the same time, or of the next, wait for all of them.
"""

_TIMER_TOLERANCE: Final = 2e-3
"""Seconds by which a timer may fire early without a second poll at the same tick."""


@dataclass(frozen=True, slots=True)
class PollSettings:
    """Poll settings of one target; all times in seconds."""

    interval: float
    histogram_interval: float
    max_duty_cycle: float
    shortest_window: float
    filtered: bool
    """Request filtered pages where the server supports them."""
    histogram_phase: float = 0.0
    """Part of its interval by which the second poll with histograms is earlier: see ``Throttle``."""

    @classmethod
    def of(cls, poll: Poll, shortest_window: float, histogram_phase: float) -> Self:
        """Return the settings of a target from the configuration of polls."""
        return cls(
            interval=poll.interval,
            histogram_interval=poll.histogram_interval,
            max_duty_cycle=poll.max_duty_cycle,
            shortest_window=shortest_window,
            filtered=poll.filter == "auto",
            histogram_phase=histogram_phase,
        )


def phases_of(targets: int) -> int:
    """Return the number of distinct poll times for a number of targets: a power of two."""
    phases = PHASES
    while phases < MAX_PHASES and targets >= 2 * phases * POLLS_OF_A_TICK:
        phases *= 2
    return phases


def phase(key: str, phases: int = PHASES) -> float:
    """Return the poll time of a target within its interval, 0 to 1: stable, and spread over targets.

    With more phases, each target's is less than 1 / ``PHASES`` later.
    """
    fine, coarse = divmod(blake2b(key.encode(), digest_size=1).digest()[0], PHASES)
    parts = phases // PHASES
    return (coarse + fine % parts / parts) / PHASES


class Ticks:
    """Moments at which one target is polled: a time of its own within each interval."""

    def __init__(self, key: str, interval: float, targets: Callable[[], int]) -> None:
        """Spread targets over more times the more there are; ``targets`` returns their present number."""
        self._key = key
        self._interval = interval
        self._targets = targets
        self._phases = phases_of(targets())
        self.offset = phase(key, self._phases)
        """Position of the ticks in every interval, 0 to 1."""

    def after(self, now: float, wait: float) -> float:
        """Return the tick that is ``wait`` seconds after that of the poll that ended at ``now``."""
        begin = now + wait - self._interval
        phases = phases_of(self._targets())
        if phases != self._phases:
            self._phases, self.offset = phases, phase(self._key, phases)
            begin += self._interval / 2  # not at once again, if its ticks are now a little later
        return next_tick(begin, self._interval, self.offset)


def next_tick(now: float, interval: float, offset: float) -> float:
    """Return the first tick after ``now``; ticks are at ``(n + offset) · interval`` (monotonic)."""
    return (floor((now + _TIMER_TOLERANCE) / interval - offset) + 1 + offset) * interval


def back_off(interval: float, failures: int, reason: Reason) -> float:
    """Return the seconds to wait after consecutive failures: doubled each time, up to a limit."""
    limit = MAX_BACK_OFF_REFUSED if reason == "refused" else MAX_BACK_OFF
    # Beyond 2^16 the limit has long been reached.
    return max(interval, min(limit, interval * 2.0 ** (min(failures, 16) - 1)))
