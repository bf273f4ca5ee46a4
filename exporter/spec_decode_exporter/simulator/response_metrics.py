"""Metrics of a response: vLLM's ``metrics``, and the fields that a gateway adds.

The keys are those of ``POST /api/v1/requests`` (docs/guide/requests.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.simulated_request import SimulatedRequest

Answer = dict[str, object]
"""Record of one request, ready for JSON."""


def answer(model_name: str, tokens: int, request: SimulatedRequest, moment: float) -> Answer:
    """Return the record of ``request``, whose response was complete at ``moment``; ``tokens`` is K."""
    kind = request.kind
    record: Answer = {
        "model": model_name,
        "metrics": _metrics(tokens, request, moment),
        "usage": {
            "prompt_tokens": request.prompt,
            "prompt_tokens_details": {"cached_tokens": request.cached},
            "completion_tokens": request.output,
        },
        "n": 1,
        "stream": True,
    }
    if kind is not None and kind.request_type:
        record["request_type"] = kind.request_type
    if kind is not None and kind.temperature is not None:
        record["temperature"] = kind.temperature
    return record


def _metrics(tokens: int, request: SimulatedRequest, moment: float) -> dict[str, object]:
    """Return vLLM's object, with times in milliseconds; without K it has no speculation."""
    decode = moment - request.first_token_at
    times: dict[str, object] = {
        "time_to_first_token_ms": 1000 * (request.first_token_at - request.arrived),
        "generation_time_ms": 1000 * decode,
        "queue_time_ms": 1000 * (request.scheduled_at - request.arrived),
    }
    if request.output > 1 and decode:
        times["mean_itl_ms"] = 1000 * decode / (request.output - 1)
        times["tokens_per_second"] = request.output / (moment - request.scheduled_at)
    return {**times, "speculative_decoding": _speculation(tokens, request)} if tokens else times


def _speculation(tokens: int, request: SimulatedRequest) -> dict[str, object]:
    lengths = request.accepted_lengths
    drafts, draft_tokens = sum(lengths), request.draft_tokens
    accepted = sum(length * times for length, times in enumerate(lengths))
    return {
        "mean_acceptance_length": 1 + accepted / drafts if drafts else None,
        "draft_acceptance_rate": accepted / draft_tokens if draft_tokens else None,
        "acceptance_histogram": lengths,
        "num_spec_steps": drafts,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": draft_tokens,
        "num_spec_tokens": tokens,
    }
