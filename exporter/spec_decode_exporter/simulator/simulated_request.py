"""Simulated requests: their distributions, their progress, and the record that their response carries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

from spec_decode_exporter.simulator.scenario import Outputs, RequestKind, Scenario

CACHE_BLOCK: Final = 16  # tokens of one block of the prefix cache
_CACHED_SPREAD: Final = 0.25
_NO_SPREAD: Final = 1e-6
"""Below this a distribution is constant: its formulas would exceed the range of floats."""

Answer = dict[str, object]
"""Record of one request, ready for JSON: the keys of ``POST /api/v1/requests`` (docs/guide/requests.md)."""


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """One request and its progress. Times are seconds since the scenario's start."""

    kind: RequestKind | None  # None if the scenario has no mix
    arrived: float
    prompt: int
    cached: int
    output: int  # tokens of the complete response
    max_tokens: int
    survival: tuple[float, ...]
    """For each draft position, the probability that the draft is accepted up to and including it."""
    to_compute: int
    """Tokens to compute before decoding: the prompt, after a preemption also the generated tokens."""
    accepted_lengths: list[int]  # drafts so far, by their number of accepted tokens
    draft_tokens: int = 0
    generated: int = 0
    drafted: int = 0  # draft tokens that the present step verifies
    scheduled_at: float = -1.0
    first_token_at: float = -1.0
    last_token_at: float = -1.0

    @property
    def length(self) -> int:
        """Tokens in the KV cache."""
        return self.prompt + self.generated

    def answer(self, model_name: str) -> Answer:
        """Return the record of the complete request: vLLM's ``metrics`` and the fields of a gateway."""
        labels = {} if self.kind is None else self.kind.model_dump(include={"request_type", "temperature"})
        metrics: Answer = {  # times in milliseconds
            "time_to_first_token_ms": 1000 * (self.first_token_at - self.arrived),
            "generation_time_ms": 1000 * (self.last_token_at - self.first_token_at),
            "queue_time_ms": 1000 * (self.scheduled_at - self.arrived),
        }
        if tokens := len(self.accepted_lengths) - 1:
            metrics["speculative_decoding"] = self._speculation(tokens)
        return {
            "model": model_name,
            "metrics": metrics,
            "usage": {
                "prompt_tokens": self.prompt,
                "prompt_tokens_details": {"cached_tokens": self.cached},
                "completion_tokens": self.output,
            },
            "n": 1,
            "stream": True,
            **{name: value for name, value in labels.items() if value not in {None, ""}},
        }

    def _speculation(self, tokens: int) -> Answer:
        drafts = sum(self.accepted_lengths)
        accepted = sum(length * times for length, times in enumerate(self.accepted_lengths))
        return {
            "mean_acceptance_length": 1 + accepted / drafts if drafts else None,
            "draft_acceptance_rate": accepted / self.draft_tokens if self.draft_tokens else None,
            "acceptance_histogram": self.accepted_lengths,
            "num_spec_steps": drafts,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": self.draft_tokens,
            "num_spec_tokens": tokens,
        }


def draw_request(
    random: Random, kind: RequestKind | None, its: Scenario, moment: float, limits: tuple[int, int]
) -> SimulatedRequest:
    """Draw a request that arrives at ``moment``.

    ``limits`` are K, and the length of prompt and response together. The order of the draws is a part of what
    a seed means.
    """
    tokens, max_length = limits
    prompt = min(draw_length(random, its.prompts), max_length - 1)
    max_tokens = min(its.outputs.max, max_length - prompt)
    share = draw_share(random, its.prompts.cached, _CACHED_SPREAD)
    cached = int(share * (prompt - 1)) // CACHE_BLOCK * CACHE_BLOCK
    output = min(draw_length(random, its.outputs), max_tokens)
    first = draw_share(random, its.acceptance.mean, its.acceptance.spread)
    conditional = (first * its.acceptance.decay**position for position in range(tokens))
    survival = tuple(accumulate(conditional, lambda survived, accepted: survived * accepted))
    return SimulatedRequest(
        kind, moment, prompt, cached, output, max_tokens, survival, prompt - cached, [0] * (tokens + 1)
    )


def draw_length(random: Random, lengths: Outputs) -> int:
    """Draw from a log-normal distribution, limited to 1 and the maximum."""
    variance = math.log1p(lengths.spread**2)
    drawn = random.lognormvariate(math.log(lengths.mean) - variance / 2, math.sqrt(variance))
    return max(1, min(lengths.max, round(drawn)))


def draw_share(random: Random, mean: float, spread: float) -> float:
    """Draw from a beta distribution with this mean and, if possible, this standard deviation."""
    max_variance = mean * (1 - mean)
    if min(spread, max_variance) < _NO_SPREAD:
        return mean
    weight = max(max_variance / spread**2 - 1, 0.05)
    return random.betavariate(mean * weight, (1 - mean) * weight)
