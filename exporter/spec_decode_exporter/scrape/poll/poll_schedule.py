"""When to ask: a fixed beat for each target, slower where asking costs the server or us much, or fails."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from hashlib import blake2b
from math import ceil, floor, inf, isfinite
from typing import Final, Literal, TypeAlias

from spec_decode_exporter.scrape.poll_errors import Reason

REMEMBERED_SECONDS = 60.0
"""How long an answer's time is remembered as what asking costs."""
TARGET_PROCESSOR_SHARE: Final = 0.05
"""The share of a core that the polls of one target may take.

110 engines, as many as a page of the default size shows, take 0.03 s a poll once their layout is known.
"""
EXCLUDED_POLLS: Final = 3
"""Polls of a minute that do not count: a first whole page, a first filtered one, and one after a restart."""
MAX_POLLS: Final = 600
"""Polls whose processor time is remembered, where there are more in a minute."""
MAX_WINDOW_SHARE = 1 / 6
"""The longest effective interval, as a share of the shortest window."""
MAX_BACK_OFF_REFUSED = 5.0
"""The longest wait, in seconds, after a refused connection: asking nobody costs nobody anything."""
MAX_WAIT: Final = 60.0
"""The longest interval, in seconds, that waiting for a turn leads to."""
MAX_BACK_OFF = 30.0
"""The longest wait after other failures."""

Cause: TypeAlias = Literal["answers", "processing"]
"""Why a target is polled less often: its answers take the server long, or reading them takes us long."""

_EARLY = 2e-3
"""So many seconds early a timer may fire and no beat is taken twice; libuv's timers are a millisecond."""
_HARDLY = 1e-3
"""What part of an interval makes no difference to how many are waited for."""


PHASES = 8
"""At how many moments of an interval targets are polled.

Polls that share a moment share its waking up, a third of what a poll costs; so many moments still spread
the load over the interval.
"""


def phase(key: str) -> float:
    """Return where in its interval a target is polled, 0 to 1: always the same, and spread over targets."""
    return blake2b(key.encode(), digest_size=1).digest()[0] % PHASES / PHASES


def next_tick(now: float, interval: float, offset: float) -> float:
    """Return the first beat after ``now``; beats are at ``(n + offset) · interval`` (monotonic)."""
    return (floor((now + _EARLY) / interval - offset) + 1 + offset) * interval


class Throttle:
    """Says when something is due that is done less often than polled: at once, and then every so often.

    Where the second time comes earlier for some than for others, it falls on a beat of their own: what is met
    together would otherwise have it done together for ever after.
    """

    def __init__(self, interval: float, phase: float = 0.0) -> None:
        """Be due every ``interval`` seconds; the second time earlier, by ``phase`` (0 to 1) of them."""
        self._interval = interval
        self._phase = phase
        self.begin_again()

    def begin_again(self) -> None:
        """Be due at once."""
        self._due = -inf

    def is_due(self, now: float, early: float = 0.0) -> bool:
        """Return whether it should be done ``now`` (monotonic), or in no more than ``early`` seconds."""
        return now >= self._due - early

    def done(self, now: float) -> None:
        """Wait until it is due again."""
        self._due = now + self._interval * (1 if isfinite(self._due) else 1 - self._phase)


def back_off(interval: float, failures: int, reason: Reason) -> float:
    """Return how long to wait after so many failures in a row, in seconds: doubling, up to a bound."""
    most = MAX_BACK_OFF_REFUSED if reason == "refused" else MAX_BACK_OFF
    # Beyond 2^16 the bound has long been reached.
    return max(interval, min(most, interval * 2.0 ** (min(failures, 16) - 1)))


class ProcessingCost:
    """The processor time that a target's polls cost the exporter itself.

    The mean, since a server chooses its pages: of cheap and costly ones in turn no single one tells. But the
    costliest few do not count, as a first page is costly: everything on it is new.
    """

    def __init__(self) -> None:
        self._polls: deque[tuple[float, float]] = deque()
        self._costs: list[float] = []
        """The processor seconds of the same polls, ascending, so that no poll has to sort them."""
        self.seconds = 0.0
        """The mean processor seconds of a poll over the last minute, the costliest few left out."""
        self.total = 0.0
        """The processor seconds of all polls of the last minute."""

    def polled(self, now: float, seconds: float) -> None:
        """Note the processor seconds of a poll that ended ``now`` (monotonic), successful or not."""
        polls, costs = self._polls, self._costs
        polls.append((now, seconds))
        insort(costs, seconds)
        self.total += seconds
        while polls[0][0] < now - REMEMBERED_SECONDS or len(polls) > MAX_POLLS:
            _, old = polls.popleft()
            del costs[bisect_left(costs, old)]
            self.total -= old
        usual = len(costs) - EXCLUDED_POLLS
        self.seconds = max(0.0, self.total - sum(costs[-EXCLUDED_POLLS:])) / usual if usual > 0 else 0.0


class DutyCycle:
    """Keeps the time that a target's polls take below a share, by asking it less often.

    One share is of the server's time, the other of our own processor.
    """

    def __init__(self, interval: float, most: float, shortest_window: float, own: ProcessingCost) -> None:
        """Ask every ``interval`` seconds unless answers take more than the share ``most`` of that."""
        self._interval = interval
        self._most = most
        self._own = own
        self._waited = 0.0
        self._most_beats = max(1, floor(shortest_window * MAX_WINDOW_SHARE / interval + _HARDLY))
        # The shortest answers: each longer than the one before it, the first the shortest of all.
        self._answers: deque[tuple[float, float]] = deque()

    def answered(self, now: float, seconds: float) -> None:
        """Note how long an answer took."""
        answers = self._answers
        while answers and answers[-1][1] >= seconds:
            answers.pop()
        answers.append((now, seconds))
        while answers[0][0] < now - REMEMBERED_SECONDS:
            answers.popleft()

    def waited(self, seconds: float) -> None:
        """Note how long a poll waited for its turn among the costly polls of all targets."""
        self._waited = min(seconds, MAX_WAIT)

    @property
    def beats(self) -> int:
        """How many intervals there are from one poll to the next.

        By the *shortest* answer of the last minute: the others waited behind the server's load, which
        is not what answering costs. Whole intervals, so that a target keeps its beat as its cost varies.
        """
        own = max(self._beats_of(self._answering()), self._beats_of(self._processing()))
        return max(own, floor(self._waited / self._interval) + 1)

    @property
    def cause(self) -> Cause | None:
        """Why the effective interval is longer than configured; None if it is not."""
        if self.beats == 1:
            return None
        return "processing" if max(self._processing(), self._waited) > self._answering() else "answers"

    def interval(self) -> float:
        """Return the effective interval in seconds."""
        return self.beats * self._interval

    def _answering(self) -> float:
        """Return the seconds from poll to poll that the server's share asks for."""
        return self._answers[0][1] / self._most if self._answers else 0.0

    def _processing(self) -> float:
        """Return the seconds from poll to poll that our own share asks for."""
        return self._own.seconds / TARGET_PROCESSOR_SHARE

    def _beats_of(self, seconds: float) -> int:
        return min(max(1, ceil(seconds / self._interval - _HARDLY)), self._most_beats)
