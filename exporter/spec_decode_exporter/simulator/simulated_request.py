"""Requests: what they are, and how the next one is drawn."""

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
"""Tokens that the prefix cache holds or does not hold together."""

_CACHED_SPREAD: Final = 0.25

_NO_SPREAD: Final = 1e-6
"""Below this a distribution is a number, and its formulae would leave the range of floats."""


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """One request and how far it has come. Times are seconds since the scenario's start."""

    arrived: float
    prompt: int
    cached: int
    output: int
    """Tokens it will have when it is finished."""
    max_tokens: int
    survival: tuple[float, ...]
    """For each draft position, the probability that a draft is accepted beyond it."""
    to_compute: int
    """Tokens to be computed before it decodes: the prompt, after a preemption also what it had generated."""
    accepted_lengths: list[int]
    """Its drafts so far, by how many of their tokens were accepted."""
    kind: RequestKind | None = None
    """None where the scenario has no mix."""
    draft_tokens: int = 0
    generated: int = 0
    drafted: int = 0
    """Draft tokens that the step under way verifies."""
    preemptions: int = 0
    scheduled_at: float = -1.0
    first_token_at: float = -1.0
    last_token_at: float = -1.0

    @property
    def length(self) -> int:
        """Tokens that it holds in the KV cache."""
        return self.prompt + self.generated


def draw_request(
    random: Random, conditions: Conditions, moment: float, tokens: int, longest: int
) -> SimulatedRequest:
    """Draw a request that arrives at ``moment``; prompt and answer have at most ``longest`` tokens."""
    prompt = min(draw_length(random, conditions.prompts), longest - 1)
    max_tokens = min(conditions.outputs.max, longest - prompt)
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
    """Draw from a log-normal distribution, cut at 1 and at the longest."""
    variance = math.log1p(lengths.spread**2)
    drawn = random.lognormvariate(math.log(lengths.mean) - variance / 2, math.sqrt(variance))
    return max(1, min(lengths.max, round(drawn)))


def draw_share(random: Random, mean: float, spread: float) -> float:
    """Draw from a beta distribution with this mean and, as far as that is possible, standard deviation."""
    widest = mean * (1 - mean)
    if min(spread, widest) < _NO_SPREAD:
        return mean
    weight = max(widest / spread**2 - 1, 0.05)
    return random.betavariate(mean * weight, (1 - mean) * weight)


def _draw_survival(random: Random, conditions: Conditions, moment: float, tokens: int) -> tuple[float, ...]:
    acceptance = conditions.acceptance
    first = draw_share(random, conditions.mean_acceptance(moment), acceptance.spread)
    conditional = (first * acceptance.decay**position for position in range(tokens))
    return tuple(accumulate(conditional, lambda survived, accepted: survived * accepted))
