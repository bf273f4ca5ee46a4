"""Interval of a target whose polls are costly for the server or for the exporter."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil, floor
from typing import Final, Literal, TypeAlias

COST_SECONDS: Final = 60.0
"""Period in seconds over which the cost of polls is measured."""
TARGET_PROCESSOR_SHARE: Final = 0.05
"""Maximum share of a core for the polls of one target.

110 engines, the maximum on a page of the default size limit, take 0.03 s a poll once their layout is known.
"""
EXCLUDED_POLLS: Final = 3
"""Costliest polls of a minute that are excluded: a first whole page, a first filtered one, a restart."""
MAX_POLLS: Final = 600
"""Maximum number of polls whose processor time is kept."""
MAX_WINDOW_SHARE: Final = 1 / 6
"""Maximum effective interval, as a share of the shortest window."""
MAX_WAIT: Final = 60.0
"""Maximum interval in seconds that waiting for a permit can cause."""
_TICK_TOLERANCE: Final = 1e-3
"""Fraction of an interval that is ignored when intervals are rounded up."""

Cause: TypeAlias = Literal["answers", "processing"]
"""Reason for a longer interval: slow responses of the server, or processor time of the exporter."""


class ProcessingCost:
    """Processor time of the exporter for one target's polls.

    The mean decides, since a server can alternate between cheap and costly pages. The costliest few polls are
    excluded: on a first page everything is new.
    """

    def __init__(self) -> None:
        self._polls: deque[tuple[float, float]] = deque()
        self._costs: list[float] = []
        """Processor seconds of the same polls, ascending, so that no poll has to sort them."""
        self.seconds = 0.0
        """Mean processor seconds of a poll over the last minute, without the costliest few."""
        self.total = 0.0
        """Processor seconds of all polls of the last minute."""

    def polled(self, now: float, seconds: float) -> None:
        """Add the processor seconds of a poll, successful or failed, that ended at ``now`` (monotonic)."""
        polls, costs = self._polls, self._costs
        polls.append((now, seconds))
        insort(costs, seconds)
        self.total += seconds
        while polls[0][0] < now - COST_SECONDS or len(polls) > MAX_POLLS:
            _, old = polls.popleft()
            del costs[bisect_left(costs, old)]
            self.total -= old
        included = len(costs) - EXCLUDED_POLLS
        self.seconds = max(0.0, self.total - sum(costs[-EXCLUDED_POLLS:])) / included if included > 0 else 0.0


class DutyCycle:
    """Limit a target's polls to a share of the server's time and a share of the exporter's processor."""

    def __init__(
        self, interval: float, max_share: float, shortest_window: float, processing: ProcessingCost
    ) -> None:
        """Poll every ``interval`` seconds unless responses take more than ``max_share`` of that."""
        self._interval = interval
        self._max_share = max_share
        self._processing_cost = processing
        self._waited = 0.0
        self._max_ticks = max(1, floor(shortest_window * MAX_WINDOW_SHARE / interval + _TICK_TOLERANCE))
        # Minimum over a sliding window: ascending response times, the first is the shortest.
        self._responses: deque[tuple[float, float]] = deque()

    def answered(self, now: float, seconds: float) -> None:
        """Add the time of a response."""
        responses = self._responses
        while responses and responses[-1][1] >= seconds:
            responses.pop()
        responses.append((now, seconds))
        while responses[0][0] < now - COST_SECONDS:
            responses.popleft()

    def waited(self, seconds: float) -> None:
        """Set the time that a poll waited for a permit among the costly polls of all targets."""
        self._waited = min(seconds, MAX_WAIT)

    @property
    def ticks(self) -> int:
        """Number of configured intervals from one poll to the next.

        The *shortest* response of the last minute counts: longer ones waited behind the server's load.
        Whole intervals keep a target on its ticks when its cost varies.
        """
        required = max(self._answering(), self._processing())
        if required <= self._interval and self._waited < self._interval:
            return 1  # nearly always, and several times a poll
        return max(self._ticks_of(required), floor(self._waited / self._interval) + 1)

    @property
    def cause(self) -> Cause | None:
        """Reason for an effective interval longer than configured; None if it is not longer."""
        if self.ticks == 1:
            return None
        return "processing" if max(self._processing(), self._waited) > self._answering() else "answers"

    def interval(self) -> float:
        """Return the effective interval in seconds."""
        return self.ticks * self._interval

    def _answering(self) -> float:
        """Return the interval in seconds that the server's share requires."""
        return self._responses[0][1] / self._max_share if self._responses else 0.0

    def _processing(self) -> float:
        """Return the interval in seconds that the exporter's share requires."""
        return self._processing_cost.seconds / TARGET_PROCESSOR_SHARE

    def _ticks_of(self, seconds: float) -> int:
        return min(max(1, ceil(seconds / self._interval - _TICK_TOLERANCE)), self._max_ticks)
