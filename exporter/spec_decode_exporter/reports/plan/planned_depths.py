"""Speed-up of each number of draft tokens, S(k) of ``analysis.depth``, without a window.

With p_i the share of drafts of which the first i+1 tokens are accepted, and cov the share of steps that do,

    S(k) = (1 + cov·(p_0 + … + p_{k-1})) / (1 + c0 + c·cov·k)

Where nothing was measured p_i = a^(i+1), with one acceptance a of every token (Leviathan, Kalman and
Matias 2023, arXiv 2211.17192, section 3). Then it breaks even where 1 + a + … + a^k is 1 + c0 + c·k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spec_decode_exporter.analysis.cost import Cost

MOST_TOKENS: Final = 8
"""As many draft tokens as the table has."""
TOLERANCE: Final = 0.03
"""More tokens that gain less than this share are not worth it, as in ``analysis.depth``."""
_HALVINGS: Final = 60


@dataclass(frozen=True, slots=True)
class PlannedDepth:
    """A number of draft tokens, and what it would give."""

    tokens: int
    speedup: float
    draft_cost_ratio: float
    break_even_token_acceptance: float | None
    """The a at which it is no slower than none; None where even 1 is too low."""
    break_even_acceptance: float
    """The share of draft tokens that must be accepted, c + c0/(cov·k): above 1 where nothing is enough."""
    measured: bool
    """Whether all its positions were measured; else they are assumed or extrapolated."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """How far drafts are accepted."""

    reached: tuple[float, ...]
    """p_i, one for each of ``MOST_TOKENS`` positions."""
    measured: int = 0
    """How many of these were measured."""
    coverage: float = 1.0
    """cov, above 0."""

    def rate(self, tokens: int) -> float:
        """Return the share of so many draft tokens that is accepted."""
        return sum(self.reached[:tokens]) / tokens

    def speedup(self, tokens: int, cost: Cost) -> float:
        """Return S(k)."""
        steps = 1 + cost.fixed_cost_ratio + cost.draft_cost_ratio * self.coverage * tokens
        return (1 + self.coverage * sum(self.reached[:tokens])) / steps


def geometric(token_acceptance: float) -> Drafts:
    """Return the drafts of which every token is accepted as likely, given those before it."""
    return Drafts(tuple(token_acceptance ** (position + 1) for position in range(MOST_TOKENS)))


def continued(positions: Sequence[float], decay: float, coverage: float) -> Drafts:
    """Return drafts that were measured, and go on beyond the last position with the same decay."""
    known = tuple(positions[:MOST_TOKENS])
    beyond = range(1, MOST_TOKENS - len(known) + 1)
    decay = min(max(decay, 0.0), 1.0)
    return Drafts((*known, *(known[-1] * decay**more for more in beyond)), len(known), coverage)


def depths(drafts: Drafts, cost_at: Callable[[int], Cost]) -> tuple[PlannedDepth, ...]:
    """Return S(1) … S(``MOST_TOKENS``); ``cost_at`` says the cost of so many tokens."""
    return tuple(_depth(drafts, tokens, cost_at(tokens)) for tokens in range(1, MOST_TOKENS + 1))


def _depth(drafts: Drafts, tokens: int, cost: Cost) -> PlannedDepth:
    # Steps that draft nothing pay the fixed cost too: the drafts must bring it in.
    of_drafts = replace(cost, fixed_cost_ratio=cost.fixed_cost_ratio / drafts.coverage)
    return PlannedDepth(
        tokens,
        drafts.speedup(tokens, cost),
        cost.draft_cost_ratio,
        break_even_token_acceptance(tokens, of_drafts),
        cost.draft_cost_ratio + of_drafts.fixed_cost_ratio / tokens,
        measured=tokens <= drafts.measured,
    )


def best(known: Sequence[PlannedDepth]) -> int:
    """Return the fewest tokens that are nearly as fast as the best; 0 where none is faster than no drafts."""
    most = max(depth.speedup for depth in known)
    enough = max((1 - TOLERANCE) * most, 1.0)
    return next((depth.tokens for depth in known if most > 1 and depth.speedup >= enough), 0)


def break_even_token_acceptance(tokens: int, cost: Cost) -> float | None:
    """Return the acceptance of a token, a, at which so many draft tokens pay; None if even 1 is too low."""
    wanted = 1 + cost.fixed_cost_ratio + cost.draft_cost_ratio * tokens
    if wanted > tokens + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _length(middle, tokens) < wanted else (low, middle)
    return high


def _length(token_acceptance: float, tokens: int) -> float:
    """Return 1 + a + … + a^k."""
    return sum(token_acceptance**position for position in range(tokens + 1))
