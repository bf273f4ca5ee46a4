"""Acceptance by draft position: a_i tokens accepted at position i of D drafts.

vLLM's ``num_speculative_tokens_per_batch_size`` changes K with the load. Then drafts of k < K tokens have no
position k, and a share of all drafts understates the acceptance there. With T = k·D every draft of an
increment had k tokens, except by chance: so increments with equal k are a *regime*, and position i has the
drafts of the regimes with k > i. Drafts of different lengths in one increment, as of an n-gram search, have
no regime. An engine that counts the draft tokens of each position tells the drafts that had it; of those that
were accepted up to the position before, a draft that ended there is taken to be like the others.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.window.engine_windows import Window, columns, position_columns

MIN_DRAFTS: Final = 10
"""Drafts of an increment: fewer drafts of different lengths often have T = k·D by chance."""
_MIN_SHARE: Final = 0.5  # share of the drafts that are in regimes
_MIN_SHORT_SHARE: Final = 0.05
"""Share of the drafts that are in regimes below K; with fewer, all figures are nearly those of K."""


class Regime(NamedTuple):
    """Sums over the increments whose drafts all had the same number of tokens."""

    tokens: int
    drafts: int
    accepted: tuple[int, ...]  # by position, k of them


class Positions:
    """Acceptance by position in one window."""

    def __init__(self, window: Window, *, are_verified: bool = True) -> None:
        """Take a window; ``are_verified`` is False if the engine counts drafts that it did not verify."""
        self._window, self._are_verified = window, are_verified
        self._counted = window.positions
        self._drafts, self._drafted = window.total.drafts, window.total.draft_tokens
        is_varied = self._drafts is not None and any(each != self._drafts for each in window.drafted)
        self._having = window.drafted if is_varied and self.are_known else ()
        """Drafts with each position, if counted and not all the same."""

    def __len__(self) -> int:
        return len(self._counted)

    @cached_property
    def are_known(self) -> bool:
        """True if the engine exports positions of verified drafts: a window has K of them in any case."""
        if not self._are_verified:
            return False
        return any(self._counted) or self._window.total.accepted_tokens == 0

    @property
    def accepted(self) -> tuple[int, ...]:
        """a_i; empty if positions are unknown, and so are all figures by position."""
        return self._counted if self.are_known else ()

    @cached_property
    def regimes(self) -> tuple[Regime, ...]:
        """Regimes by ascending k; empty if all drafts have K tokens, or if their lengths vary."""
        if not self._drafts or self._are_full or self._having or not self.are_known:
            return ()
        drafts, drafted = columns(self._window.increments, "drafts", "draft_tokens")
        places: dict[int, list[int]] = {}
        for place, (own, tokens) in enumerate(zip(drafts, drafted, strict=True)):
            if own >= MIN_DRAFTS and tokens % own == 0 and 0 < tokens <= len(self) * own:
                places.setdefault(tokens // own, []).append(place)
        numbers = {k: sum(drafts[place] for place in own) for k, own in places.items()}
        short = sum(number for k, number in numbers.items() if k < len(self))
        if sum(numbers.values()) < _MIN_SHARE * self._drafts or short < _MIN_SHORT_SHARE * self._drafts:
            return ()
        accepted = position_columns(self._window.increments, max(numbers))
        return tuple(
            Regime(k, numbers[k], tuple(sum(column[place] for place in places[k]) for column in accepted[:k]))
            for k in sorted(numbers)
        )

    @cached_property
    def acceptance(self) -> list[float | None]:
        """p_i = a_i / D: the share of the drafts that have position i with at least i + 1 accepted tokens."""
        if not self._is_divided:
            return [ratio(accepted, self._drafts) for accepted in self.accepted]
        return [ratio(accepted, drafts) for drafts, _, accepted in map(self._at, range(len(self)))]

    @cached_property
    def conditional(self) -> list[float | None]:
        """q_i = a_i / a_{i-1}, with q_0 = p_0: the acceptance of drafts that reach the position."""
        return [ratio(accepted, reached) for accepted, reached in self.counts]

    @cached_property
    def counts(self) -> list[tuple[int, int | None]]:
        """Accepted tokens of every position, and the drafts that were accepted up to the one before.

        If the lengths of drafts vary, some of these drafts ended before the position.
        """
        if not self._is_divided:
            return list(zip(self.accepted, (self._drafts, *self.accepted), strict=False))
        return [(accepted, reached) for _, reached, accepted in map(self._at, range(len(self)))]

    @cached_property
    def decay(self) -> float | None:
        """(a_1 + … + a_{K-1}) / (a_0 + … + a_{K-2}); 1 is no decay, None for K = 1."""
        rows = [regime.accepted for regime in self.regimes] or [self.accepted]
        return ratio(sum(sum(row[1:]) for row in rows), sum(sum(row[:-1]) for row in rows))

    @cached_property
    def lengths(self) -> list[float | None]:
        """P(accepted length = j) for j = 0 … K: p_{j-1} - p_j with p_{-1} = 1 and p_K = 0."""
        if self._drafts is None or not self.accepted:
            return []
        return [ratio(a - b, self._drafts) for a, b in pairwise((self._drafts, *self.accepted, 0))]

    @property
    def common(self) -> int:
        """Number of positions that every draft has, as far as it is known: at least the first."""
        if self._having:
            return sum(number == self._drafts for number in self._having)
        if self._drafts is None or self._are_full:
            return len(self)
        return self.regimes[0].tokens if self.regimes else 1

    def drafts_with(self, position: int) -> int | None:
        """Return the drafts that had a position, as counted or by regimes; None if unknown."""
        return self._at(position)[0] if self._is_divided else None

    def least_drafted(self, position: int) -> float:
        """Return the minimum number of drafts with a token at a position: (T - i·D) / (K - i).

        A draft that ends before position i lacks all K - i tokens from there on. So no more than
        (K·D - T) / (K - i) drafts do.
        """
        if self._having:
            return self._having[position]
        drafts, drafted = self._drafts or 0, self._drafted or 0
        return min(max((drafted - position * drafts) / (len(self) - position), 0.0), drafts)

    def highest_acceptance(self, position: int) -> float | None:
        """Return the maximum acceptance of the drafts that had a position; exact if they are known."""
        if self._is_divided:
            return self.acceptance[position]
        return ratio(self._counted[position], self.least_drafted(position))

    def drafted_up_to(self, tokens: int) -> float | None:
        """Return the mean tokens of a draft that ends after ``tokens`` at most; None if unknown."""
        if self._having:
            return ratio(sum(self._having[:tokens]), self._drafts)
        drafted = sum(regime.drafts * min(regime.tokens, tokens) for regime in self.regimes)
        return ratio(drafted, sum(regime.drafts for regime in self.regimes))

    @property
    def _is_divided(self) -> bool:
        """True if the drafts that had each position are known, and not all had it."""
        return bool(self._having or self.regimes)

    @property
    def _are_full(self) -> bool:
        """True if every draft has K tokens, or if their number is unknown."""
        return self._drafted is None or self._drafted >= len(self) * (self._drafts or 0)

    def _at(self, position: int) -> tuple[int, int, int]:
        """Return the drafts that have a position, those of them accepted up to the one before, and there."""
        if self._having:
            before = ((self._drafts or 0), *self._having)[position]
            earlier = (before, *self.accepted)[position]
            own = self._having[position]
            return own, round(earlier * own / before) if before else 0, self.accepted[position]
        having = [regime for regime in self.regimes if regime.tokens > position]
        return (
            sum(regime.drafts for regime in having),
            sum((regime.drafts, *regime.accepted)[position] for regime in having),
            sum(regime.accepted[position] for regime in having),
        )
