"""Simulated requests, and the distributions from which they are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

    from spec_decode_exporter.simulator.scenario import Lengths, RequestKind
    from spec_decode_exporter.simulator.timeline import Conditions

CACHE_BLOCK: Final = 16
"""Tokens of one block of the prefix cache."""

_CACHED_SPREAD: Final = 0.25

_NO_SPREAD: Final = 1e-6
"""Below this a distribution is constant: its formulas would exceed the range of floats."""


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """One request and its progress. Times are seconds since the scenario's start."""

    arrived: float
    prompt: int
    cached: int
    output: int
    """Tokens of the complete response."""
    max_tokens: int
    survival: tuple[float, ...]
    """For each draft position, the probability that the draft is accepted up to and including it."""
    to_compute: int
    """Tokens to compute before decoding: the prompt, after a preemption also the generated tokens."""
    accepted_lengths: list[int]
    """Drafts so far, by their number of accepted tokens."""
    kind: RequestKind | None = None
    """None if the scenario has no mix."""
    draft_tokens: int = 0
    generated: int = 0
    drafted: int = 0
    """Draft tokens that the present step verifies."""
    preemptions: int = 0
    scheduled_at: float = -1.0
    first_token_at: float = -1.0
    last_token_at: float = -1.0

    @property
    def length(self) -> int:
        """Tokens in the KV cache."""
        return self.prompt + self.generated


def draw_request(
    random: Random, conditions: Conditions, moment: float, tokens: int, max_length: int
) -> SimulatedRequest:
    """Draw a request that arrives at ``moment``; ``max_length`` limits prompt and response together."""
    prompt = min(draw_length(random, conditions.prompts), max_length - 1)
    max_tokens = min(conditions.outputs.max, max_length - prompt)
    share = draw_share(random, conditions.prompts.cached, _CACHED_SPREAD)
    cached = int(share * (prompt - 1)) // CACHE_BLOCK * CACHE_BLOCK
    return SimulatedRequest(
        arrived=moment,
        prompt=prompt,
        cached=cached,
        output=min(draw_length(random, conditions.outputs), max_tokens),
        max_tokens=max_tokens,
        survival=_draw_survival(random, conditions, moment, tokens),
        to_compute=prompt - cached,
        accepted_lengths=[0] * (tokens + 1),
    )


def draw_length(random: Random, lengths: Lengths) -> int:
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


def _draw_survival(random: Random, conditions: Conditions, moment: float, tokens: int) -> tuple[float, ...]:
    acceptance = conditions.acceptance
    first = draw_share(random, conditions.mean_acceptance(moment), acceptance.spread)
    conditional = (first * acceptance.decay**position for position in range(tokens))
    return tuple(accumulate(conditional, lambda survived, accepted: survived * accepted))
