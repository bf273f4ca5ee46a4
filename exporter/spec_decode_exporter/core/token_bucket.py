"""Token bucket: limit how often something happens, with a burst at once and a rate afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class TokenBucket:
    """Tokens that are taken one by one and refilled at a constant rate."""

    def __init__(self, burst: int, every: float, now: Callable[[], float]) -> None:
        """Begin with ``burst`` tokens, the maximum; add one ``every`` seconds of the clock ``now``."""
        self._burst = float(burst)
        self._every = every
        self._now = now
        self._left = self._burst
        self._refilled_at = now()

    def take(self) -> bool:
        """Take a token; return False if there is none."""
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._refilled_at) / self._every)
        self._refilled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
