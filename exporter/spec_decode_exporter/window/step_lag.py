"""Detect decode steps that a server publishes later than the drafts of the same steps.

Newer versions of vLLM's Rust front end may buffer the inter-token latency of a running stream. Those of 0.32
and 0.33 do not: their recorded steps are at most two behind the drafts. So the counters decide.
"""

from __future__ import annotations

from math import inf
from typing import Final

ALLOWED: Final = 0.1
"""Share of the drafts that may lack a step: a draft of a cancelled request has none."""


class StepLag:
    """Compares drafts with steps. Without a lag every draft has its step, on the same page or the next."""

    def __init__(self) -> None:
        self._missing = 0.0
        self._seen_at = -inf

    def observe(self, drafts: int, steps: int, torn: float, moment: float) -> None:
        """Add an increment that ends at ``moment`` (monotonic).

        Args:
            drafts: Increase of the drafts.
            steps: Increase of the decode steps; 0 before the server's first step.
            torn: Drafts by which a page may be inconsistent.
            moment: End of the increment.
        """
        self._missing = max(0.0, self._missing + (1 - ALLOWED) * drafts - steps)
        if self._missing > torn:
            self._seen_at = moment

    def reset(self) -> None:
        """Forget another process."""
        self._missing, self._seen_at = 0.0, -inf

    def is_within(self, seconds: float, now: float) -> bool:
        """Return whether steps lagged in the last ``seconds`` before ``now`` (monotonic)."""
        return now - self._seen_at <= seconds
