"""Whether another number of draft tokens would pay more: S(k) for the depths that p_i tells about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Depth:
    """A number of draft tokens, and what it would give."""

    tokens: int
    """k; 0 is no speculation."""
    speedup: float
    """S(k): tokens per time of a plain decode step, against 1 without speculation."""
    extrapolated: bool
    """Whether it is beyond the positions that the engine drafts now."""
