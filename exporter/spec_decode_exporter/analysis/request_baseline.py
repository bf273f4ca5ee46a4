"""Baseline of a request: its time to first token and prefix-cache hits without speculation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestBaseline:
    """Mean request of the same model without speculation."""

    first_token_seconds: float
    """P0: mean time to first token in seconds, time in the queue included; above 0."""
    prefix_hit_ratio: float | None
    """Share of prompt tokens that the prefix cache held, between 0 and 1; None if not looked up."""
    queue_seconds: float | None
    """Median time in the queue in seconds; None if unknown."""
    prompt_tokens: float | None = None
    """Mean tokens of a prompt; None if unknown. A baseline with other prompts is not comparable."""
    running_requests: float | None = None
    """Mean running requests; None if unknown."""
