"""Recurring failures and work: log once, limit the rate, back off, believe only what persists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class OnceUntilRecovered:
    """Decides whether to log: a failure when it begins or changes its reason, and its end."""

    reason: str | None = None  # reason of the present failure; None if the last attempt succeeded

    def failed(self, reason: str = "") -> bool:
        """Note a failure; return whether to log it: it is the first, or its reason is new."""
        before, self.reason = self.reason, reason
        return reason != before

    def recovered(self) -> bool:
        """Note a success; return whether to log it: it ends a failure."""
        before, self.reason = self.reason, None
        return before is not None


class TokenBucket:
    """Tokens that are taken one by one and refilled at a constant rate."""

    def __init__(self, burst: int, every: float, now: Callable[[], float]) -> None:
        """Begin with ``burst`` tokens, the maximum; add one ``every`` seconds of the clock ``now``."""
        self._burst, self._every, self._now = burst, every, now
        self._left, self._refilled_at = float(burst), now()

    def take(self) -> bool:
        """Take a token; return False if there is none."""
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._refilled_at) / self._every)
        self._refilled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def back_off(failures: int, shortest: float, longest: float) -> float:
    """Return the seconds to wait after consecutive failures: doubled each time, up to ``longest``."""
    return max(shortest, min(longest, shortest * 2.0 ** (min(failures, 64) - 1)))


def persistent(since: dict[T, float], claims: Iterable[T], now: float, seconds: float) -> frozenset[T]:
    """Return the claims of a test at ``now`` (monotonic) that have held at every test for ``seconds``.

    A test with 5 % false positives is wrong at some moment of most hours if it runs every few seconds. A
    claim that held at every test of a whole window is confirmed by two disjoint windows, and by all between.

    Args:
        since: The moment since which each claim of the last test holds; replaced by those of this test.
        claims: Claims of this test.
        now: Seconds.
        seconds: Length of the window.
    """
    held = {claim: since.get(claim, now) for claim in claims}
    since.clear()
    since.update(held)
    return frozenset(claim for claim, moment in held.items() if now - moment >= seconds)
