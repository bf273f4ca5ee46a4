"""Expected speed-up by number of draft tokens, S(k) of ``analysis.depth``, without a window.

With p_i the share of drafts whose first i+1 tokens are accepted, and cov the share of steps with a draft,

    S(k) = (1 + cov·(p_0 + … + p_{k-1})) / (1 + cov·(c0 + c·k))

where a drafter that searches in every step pays c0 instead of cov·c0. Without a measurement p_i = a^(i+1),
with the same acceptance a of every token (Leviathan, Kalman and Matias 2023, arXiv 2211.17192, section 3).
The break-even a solves 1 + a + … + a^k = 1 + c0 + c·k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spec_decode_exporter.config.policy import DepthPolicy
from spec_decode_exporter.figures.window_figures import Price

MAX_TOKENS: Final = 8
"""Largest number of draft tokens in the table."""
_TOLERANCE: Final = DepthPolicy().tolerance
"""Smallest gain, as a share, that justifies more draft tokens: that of the exporter's advice by default."""
_HALVINGS: Final = 60


@dataclass(frozen=True, slots=True)
class PlannedDepth:
    """Expected speed-up of a number of draft tokens."""

    tokens: int
    speedup: float
    draft_cost_ratio: float
    break_even_token_acceptance: float | None
    """Acceptance a of a token at break-even; None if even 1 is too low."""
    break_even_acceptance: float
    """Break-even acceptance rate, c + c0/k, or c + c0/(cov·k) if every step searches.

    Above 1 if no rate suffices.
    """
    measured: bool
    """True if all positions were measured; otherwise they are assumed or extrapolated."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Acceptance of drafts by position."""

    reached: tuple[float, ...]
    """p_i, one for each of ``MAX_TOKENS`` positions."""
    measured: int = 0
    """Number of these that were measured."""
    coverage: float = 1.0
    """cov, above 0."""

    def rate(self, tokens: int) -> float:
        """Return the acceptance rate of ``tokens`` draft tokens."""
        return sum(self.reached[:tokens]) / tokens

    def speedup(self, tokens: int, price: Price) -> float:
        """Return S(k)."""
        steps = 1 + self.coverage * (self.fixed_cost_of_a_draft(price) + price.token * tokens)
        return (1 + self.coverage * sum(self.reached[:tokens])) / steps

    def fixed_cost_of_a_draft(self, price: Price) -> float:
        """Return c0 for each draft: if every step searches, a draft pays for the steps that find none too."""
        return price.step / (self.coverage if price.every_step else 1.0)


def geometric(token_acceptance: float) -> Drafts:
    """Return drafts whose tokens all have the same conditional acceptance."""
    return Drafts(tuple(token_acceptance ** (position + 1) for position in range(MAX_TOKENS)))


def continued(positions: Sequence[float], decay: float, coverage: float) -> Drafts:
    """Return measured drafts, extrapolated beyond the last position by ``decay``."""
    known = tuple(positions[:MAX_TOKENS])
    beyond = range(1, MAX_TOKENS - len(known) + 1)
    decay = min(max(decay, 0.0), 1.0)
    return Drafts((*known, *(known[-1] * decay**more for more in beyond)), len(known), coverage)


def acceptance_rate(token_acceptance: float, tokens: int) -> float:
    """Return the acceptance rate of ``tokens`` draft tokens if each has the same acceptance."""
    return sum(token_acceptance**position for position in range(1, tokens + 1)) / tokens


def depths(drafts: Drafts, price_at: Callable[[int], Price]) -> tuple[PlannedDepth, ...]:
    """Return S(1) … S(``MAX_TOKENS``); ``price_at`` returns the cost by number of tokens."""
    return tuple(_depth(drafts, tokens, price_at(tokens)) for tokens in range(1, MAX_TOKENS + 1))


def _depth(drafts: Drafts, tokens: int, price: Price) -> PlannedDepth:
    of_drafts = price._replace(step=drafts.fixed_cost_of_a_draft(price))
    return PlannedDepth(
        tokens,
        drafts.speedup(tokens, price),
        price.token,
        break_even_token_acceptance(tokens, of_drafts),
        price.token + of_drafts.step / tokens,
        measured=tokens <= drafts.measured,
    )


def best(known: Sequence[PlannedDepth]) -> int:
    """Return the fewest tokens that are as good as the best; 0 if none is above 1."""
    largest = max(depth.speedup for depth in known)
    enough = max((1 - _TOLERANCE) * largest, 1.0)
    return next((depth.tokens for depth in known if largest > 1 and depth.speedup >= enough), 0)


def break_even_token_acceptance(tokens: int, price: Price) -> float | None:
    """Return the acceptance a of a token at break-even with ``tokens``; None if even 1 is too low."""
    wanted = 1 + price.step + price.token * tokens
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
