"""One request's speculation, as vLLM tells it in the ``metrics`` of its response.

Nothing of what was asked or answered is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Request:
    """What one request's response says."""

    model_name: str
    drafts: int
    """D, ``num_spec_steps``: decode steps that drafted."""
    draft_tokens: int
    """T, ``num_draft_tokens``."""
    accepted_tokens: int
    """A, ``num_accepted_draft_tokens``."""
    tokens: int
    """K, ``num_spec_tokens``: what was drafted at most in one step."""
    request_type: str = ""
    """What the sender calls this kind of work; empty where it calls it nothing."""
    temperature: float | None = None
    """None where the request left it to the server."""
    stream: bool | None = None
    completion_tokens: int | None = None
    """G, with the first one."""
    decode_seconds: float | None = None
    """``generation_time_ms``: from the first token to the last."""
    target: str = ""
    """The target that served it, where the sender knows; else any that has the model may have."""
    user: str = ""
    """A hash; empty where users are not kept."""


class Refusal(StrEnum):
    """Why a request that was sent to us is not counted; the value is the ``reason`` label."""

    MALFORMED = "malformed"
    """It is not what docs/requests.md describes."""
    WITHOUT_METRICS = "without_metrics"
    """vLLM said nothing of its speculation: several sequences, a stream without usage, not switched on."""
    CONTRADICTORY = "contradictory"
    """Its numbers cannot be: more accepted than drafted."""
    RATE = "rate"
    """More came in a second than are taken."""
    DROPPED = "dropped"
    """Its sender let it go, and says so with what it sends later."""
    TOO_COSTLY = "too_costly"
    """The middleware inside vLLM did not read it: the request exceeds its limits of time or items."""
    BODY = "body"
    """Its body was turned away whole; each body counts as one, for nobody knows how many were in it."""
