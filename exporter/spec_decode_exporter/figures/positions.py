"""Acceptance by draft position: a_i tokens accepted at position i of D drafts.

vLLM's ``num_speculative_tokens_per_batch_size`` changes K with the load. Then drafts of k < K tokens have no
position k, and a share of all drafts understates the acceptance there. With T = k·D every draft of an
increment had k tokens, except by chance: so increments with equal k are a *regime*, and position i has the
drafts of the regimes with k > i. Drafts of different lengths in one increment, as of an n-gram search, have
no regime.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.window.history import Window, columns, position_columns

MIN_DRAFTS: Final = 10
"""Drafts of an increment: fewer drafts of different lengths often have T = k·D by chance."""
_MIN_SHARE: Final = 0.5
"""Share of the drafts that are in regimes."""
_MIN_SHORT_SHARE: Final = 0.05
"""Share of the drafts that are in regimes below K; with fewer, all figures are nearly those of K."""


class Regime(NamedTuple):
    """Sums over the increments whose drafts all had the same number of tokens."""

    tokens: int
    drafts: int
    accepted: tuple[int, ...]
    """By position, k of them."""


class _Position(NamedTuple):
    """Drafts that have a position, those accepted up to the one before, and those accepted there."""

    drafts: int
    reached: int
    accepted: int


class Positions:
    """Positions of one window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._accepted, self._drafts = window.positions, window.total.drafts

    def __len__(self) -> int:
        return len(self._accepted)

    @cached_property
    def are_known(self) -> bool:
        """True if the engine exports positions: a window has K of them in any case."""
        return any(self._accepted) or self._window.total.accepted_tokens == 0

    @cached_property
    def regimes(self) -> tuple[Regime, ...]:
        """Regimes by ascending k; empty if all drafts have K tokens, or if their lengths vary."""
        drafts, drafted, most = self._drafts, self._window.total.draft_tokens, len(self)
        if not drafts or drafted is None or drafted >= most * drafts:
            return ()
        drafted_by = columns(self._window.increments, "drafts", "draft_tokens")
        places: dict[int, list[int]] = {}
        for place, (own, tokens) in enumerate(zip(*drafted_by, strict=True)):
            if own >= MIN_DRAFTS and tokens % own == 0 and 0 < tokens <= most * own:
                places.setdefault(tokens // own, []).append(place)
        numbers = {tokens: sum(drafted_by[0][place] for place in own) for tokens, own in places.items()}
        short = sum(number for tokens, number in numbers.items() if tokens < most)
        if sum(numbers.values()) < _MIN_SHARE * drafts or short < _MIN_SHORT_SHARE * drafts:
            return ()
        accepted = position_columns(self._window.increments, max(numbers))
        return tuple(
            Regime(k, numbers[k], tuple(sum(column[place] for place in places[k]) for column in accepted[:k]))
            for k in sorted(numbers)
        )

    @cached_property
    def acceptance(self) -> list[float | None]:
        """p_i = a_i / D: the share of the drafts that have position i with at least i + 1 accepted tokens."""
        if not self.regimes:
            return [ratio(accepted, self._drafts) for accepted in self._accepted]
        return [ratio(self._at(i).accepted, self._at(i).drafts) for i in range(len(self))]

    @cached_property
    def conditional(self) -> list[float | None]:
        """q_i = a_i / a_{i-1}, with q_0 = p_0: the acceptance of drafts that reach the position."""
        if not self.regimes:
            reached = (self._drafts, *self._accepted)
            return [ratio(a, before) for a, before in zip(self._accepted, reached, strict=False)]
        return [ratio(self._at(i).accepted, self._at(i).reached) for i in range(len(self))]

    @cached_property
    def decay(self) -> float | None:
        """(a_1 + … + a_{K-1}) / (a_0 + … + a_{K-2}); 1 is no decay, None for K = 1."""
        rows = [regime.accepted for regime in self.regimes] or [self._accepted]
        if len(self) < 2 and not self.regimes:  # noqa: PLR2004
            return None
        return ratio(sum(sum(row[1:]) for row in rows), sum(sum(row[:-1]) for row in rows))

    @cached_property
    def lengths(self) -> list[float | None]:
        """P(accepted length = j) for j = 0 … K: p_{j-1} - p_j with p_{-1} = 1 and p_K = 0."""
        if self._drafts is None or not self._accepted:
            return []
        return [ratio(a - b, self._drafts) for a, b in pairwise((self._drafts, *self._accepted, 0))]

    def drafted_up_to(self, tokens: int) -> float | None:
        """Return the mean tokens of a draft that ends after ``tokens`` at most; None without regimes."""
        drafted = sum(regime.drafts * min(regime.tokens, tokens) for regime in self.regimes)
        return ratio(drafted, sum(regime.drafts for regime in self.regimes))

    def _at(self, position: int) -> _Position:
        """Return the sums over the regimes that have a position."""
        having = [regime for regime in self.regimes if regime.tokens > position]
        return _Position(
            sum(regime.drafts for regime in having),
            sum((regime.drafts, *regime.accepted)[position] for regime in having),
            sum(regime.accepted[position] for regime in having),
        )
