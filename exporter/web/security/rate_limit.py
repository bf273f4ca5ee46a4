"""How many requests are answered: a bucket of tokens, as exporter-toolkit has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class TokenBucket:
    """Holds ``burst`` tokens at most, and gains one in each ``interval`` (seconds)."""

    def __init__(self, interval: float, burst: int, now: Callable[[], float]) -> None:
        """Begin full; ``now`` is a monotonic clock."""
        self._interval = interval
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._filled = now()

    def take(self) -> bool:
        """Take a token; return whether there was one."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) / self._interval)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
