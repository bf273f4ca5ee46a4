"""Counters and histograms of one simulated engine since its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.simulator.histogram import (
    ITERATION_BOUNDS,
    PREEMPTION_BOUNDS,
    REQUEST_BOUNDS,
    SAMPLES_BOUNDS,
    STEP_BOUNDS,
    TTFT_BOUNDS,
    SimulatedHistogram,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spec_decode_exporter.simulator.simulated_request import SimulatedRequest

FINISHED_REASONS: Final = ("stop", "length", "abort", "error", "repetition")


class EngineCounts:
    """Counters and histograms of one engine.

    A draft is counted once, by its number of accepted tokens. All acceptance counters are derived from that
    count, so they are always consistent.
    """

    def __init__(self, tokens: int, token_bounds: Sequence[float]) -> None:
        self.accepted_lengths = [0] * (tokens + 1)
        self.draft_tokens = 0
        self.generation_tokens = 0
        self.computed_prompt_tokens = 0
        self.cached_prompt_tokens = 0
        self.cache_queries = 0
        self.cache_hits = 0
        self.preemptions = 0
        self.finished = dict.fromkeys(FINISHED_REASONS, 0)
        self.iteration_tokens = SimulatedHistogram(ITERATION_BOUNDS)
        self.first_token = SimulatedHistogram(TTFT_BOUNDS)
        self.step = SimulatedHistogram(STEP_BOUNDS)
        self.time_per_output_token = SimulatedHistogram(STEP_BOUNDS)
        self.end_to_end = SimulatedHistogram(REQUEST_BOUNDS)
        self.queue = SimulatedHistogram(REQUEST_BOUNDS)
        self.inference = SimulatedHistogram(REQUEST_BOUNDS)
        self.prefill = SimulatedHistogram(REQUEST_BOUNDS)
        self.decode = SimulatedHistogram(REQUEST_BOUNDS)
        self.prompt_length = SimulatedHistogram(token_bounds)
        self.output_length = SimulatedHistogram(token_bounds)
        self.max_tokens = SimulatedHistogram(token_bounds)
        self.computed_prefill = SimulatedHistogram(token_bounds)
        self.samples = SimulatedHistogram(SAMPLES_BOUNDS)
        self.request_preemptions = SimulatedHistogram(PREEMPTION_BOUNDS)

    @property
    def drafts(self) -> int:
        """Request-steps that had a draft."""
        return sum(self.accepted_lengths)

    @property
    def accepted_tokens(self) -> int:
        """Accepted draft tokens, including those past the end of a response."""
        return sum(length * drafts for length, drafts in enumerate(self.accepted_lengths))

    @property
    def accepted_by_position(self) -> list[int]:
        """Drafts with more than ``position`` accepted tokens, by position."""
        positions = range(len(self.accepted_lengths) - 1)
        return [sum(self.accepted_lengths[position + 1 :]) for position in positions]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of requests with a first token."""
        return self.computed_prompt_tokens + self.cached_prompt_tokens

    def begin(self, request: SimulatedRequest, moment: float) -> None:
        """Count the first token of a request."""
        self.first_token.observe(moment - request.arrived)
        self.computed_prompt_tokens += request.prompt - request.cached
        self.cached_prompt_tokens += request.cached

    def finish(self, request: SimulatedRequest, moment: float) -> None:
        """Count a request whose last token came at ``moment``."""
        decode = moment - request.first_token_at
        self.finished["length" if request.output == request.max_tokens else "stop"] += 1
        self.end_to_end.observe(moment - request.arrived)
        self.queue.observe(request.scheduled_at - request.arrived)
        self.inference.observe(moment - request.scheduled_at)
        self.prefill.observe(request.first_token_at - request.scheduled_at)
        self.decode.observe(decode)
        self.time_per_output_token.observe(decode / max(1, request.output - 1))
        self.prompt_length.observe(request.prompt)
        self.output_length.observe(request.output)
        self.max_tokens.observe(request.max_tokens)
        self.computed_prefill.observe(request.prompt - request.cached)
        self.samples.observe(1)
        self.request_preemptions.observe(request.preemptions)
