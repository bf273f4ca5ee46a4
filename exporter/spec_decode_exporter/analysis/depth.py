"""Speed-up S(k) at other numbers of draft tokens, estimated from the present acceptance.

With p_i the share of drafts accepted up to position i, cov the share of steps that draft (1 if unknown) and
t_k the mean tokens of a draft of at most k,

    S(k) = (1 + cov·(p_0 + … + p_{k-1})) / (1 + cov·(c0 + c·t_k))

where a drafter that searches in every step pays c0 instead of cov·c0.

Another depth is a hypothesis: p_i was measured at this K. If a schedule changes K, S(k) is that of the
schedule with at most k tokens: p_i is then a share of all drafts.
"""

from __future__ import annotations

from itertools import accumulate, compress, islice
from operator import add, sub
from typing import Final, NamedTuple

from propcache.api import cached_property

from spec_decode_exporter.costs.cost import StepCost
from spec_decode_exporter.figures.estimate import ratio, standard_error
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.window.engine_windows import columns, position_columns

MAX_EXTRAPOLATED: Final = 2  # extrapolated positions, if the decay over the known ones is known
WHOLE_DRAFTS: Final = 0.95
"""Mean draft length, as a share of K, that extrapolation needs: a search that drafts less would at any K."""


class Depth(NamedTuple):
    """A number of draft tokens, and its speed-up."""

    tokens: int  # k; 0 means no speculation
    speedup: float  # S(k): tokens per time of a plain decode step; 1 without speculation
    basis: str  # ``measured``, or ``extrapolated`` beyond the positions that the engine drafts now
    marginal_benefit: float | None
    """p_{k-1} / (c·S(k-1)): above 1, drafting the last of the tokens pays. None if c is 0, or almost."""


def speedup(price: StepCost, coverage: float, accepted: float, drafted: float) -> float:
    """Return S(k) with ``accepted`` of the ``drafted`` tokens of a draft in the mean; cov is ``coverage``."""
    return (1 + coverage * accepted) / plain_steps(price, coverage, drafted)


def plain_steps(price: StepCost, coverage: float, drafted: float) -> float:
    """Return the plain decode steps that a step takes."""
    return 1 + price.fixed(coverage) + price.token * coverage * drafted


class Depths:
    """Numbers of draft tokens 1 … K of a window with drafts and positions, and up to two more."""

    def __init__(self, figures: WindowFigures, drafts: int) -> None:
        """Take the figures of a window with ``drafts`` drafts."""
        # The figures keep these depths: a reference to them would be a cycle, which lives for minutes.
        self._window, self._positions = figures.window, figures.positions
        self._increments, self._cosines = figures.increments, figures.cosines
        self._length = figures.draft_length_tokens
        self._drafts = drafts
        self.known = len(figures.positions)  # K
        self._coverage = figures.coverage_ratio or 1.0

    def __len__(self) -> int:
        return len(self._reached)

    def speedup(self, price: StepCost, tokens: int) -> float:
        """Return S(k)."""
        return speedup(price, self._coverage, self._accepted[tokens], self._drafted[tokens])

    def pays(self, price: StepCost, tokens: int) -> bool:
        """Return whether k tokens are at least as fast as none, less the share of discarded tokens."""
        return 0 < tokens <= len(self) and self.speedup(price, tokens) * self._kept >= 1

    def recommended(self, price: StepCost, tolerance: float) -> int:
        """Return the fewest tokens that pay and are as fast as the best; 0 if even the best does not pay.

        As fast: within ``tolerance``, a share of the best, or within one standard error of the difference.
        """
        speedups = {tokens: self.speedup(price, tokens) for tokens in range(1, len(self) + 1)}
        best = max(speedups, key=speedups.__getitem__)
        enough = (1 - tolerance) * speedups[best]
        for tokens in (tokens for tokens in speedups if self.pays(price, tokens)):
            speedup = speedups[tokens]
            if speedup >= enough or speedup >= speedups[best] - self.error(price, tokens, best):
                return tokens
        return 0

    def is_faster(self, price: StepCost, tokens: int, tolerance: float) -> bool:
        """Return whether k tokens are faster than K by more than ``tolerance`` and one standard error.

        ``recommended`` requires the same to prefer more tokens to fewer.
        """
        if not 0 < tokens <= len(self):
            return False
        present, other = self.speedup(price, self.known), self.speedup(price, tokens)
        is_enough = present < (1 - tolerance) * other
        return is_enough and present < other - self.error(price, self.known, tokens)

    def each(self, price: StepCost) -> list[Depth]:
        """Return every number of tokens with its speed-up.

        The marginal benefit is that of the drafts with the position; a limit if their number is unknown.
        """
        found, before = [], 1 / (1 + price.fixed(self._coverage))
        for tokens, reached in enumerate(self._surviving, 1):
            benefit = ratio(reached, price.token * before)
            before = self.speedup(price, tokens)
            basis = "measured" if tokens <= self.known else "extrapolated"
            found.append(Depth(tokens, before, basis, benefit))
        return found

    def speedups_alone(self, price: StepCost, most: int, *, searches: bool) -> list[float]:
        """Return S(0) … S(most), each of a server that drafts this number of tokens at most, at one load.

        They hold at a load at which the schedule in force drafts nothing: p_i is that of the drafts with
        position i, and every step has a draft unless the method ``searches`` for one. S(0) is 1.
        """
        coverage = self._coverage if searches else 1.0
        accepted = accumulate(self._surviving, initial=0.0)
        drafted = range(len(self) + 1) if self._positions.regimes else self._drafted
        plain = 1 + price.fixed(coverage)
        each = (
            self._kept * (1 + coverage * gained) / (plain + price.token * coverage * tokens)
            for gained, tokens in zip(accepted, drafted, strict=True)
        )
        return [1.0, *islice(each, 1, most + 1)]

    def error(self, price: StepCost, tokens: int, other: int) -> float:
        """Return the standard error of S(other) - S(tokens); 0 if the window has no bounds.

        By the delta method: S is linear in p_i. Both depths depend on the same drafts.
        """
        difference = list(map(sub, self._changes(price, other), self._changes(price, tokens)))
        return standard_error(difference, self._cosines) / self._drafts

    @cached_property
    def _decay(self) -> float:
        """Ratio of each p_i beyond K to the one before; p_0 if K is 1: the next token is as difficult."""
        first = self._window.positions[0] / self._drafts
        return min(first if self.known == 1 else self._positions.decay or 0.0, 1.0)

    @cached_property
    def _reached(self) -> list[float]:
        """p_i of all drafts; beyond K, p_{K-1} times the decay for each further position."""
        length = self._length
        whole = length is not None and length >= WHOLE_DRAFTS * self.known
        further = min(self.known, MAX_EXTRAPOLATED) if whole else 0
        known = [accepted / self._drafts for accepted in self._window.positions]
        return [*known, *(known[-1] * self._decay**more for more in range(1, further + 1))]

    @cached_property
    def _accepted(self) -> list[float]:
        """p_0 + … + p_{k-1} for every k."""
        return [0.0, *accumulate(self._reached)]

    @cached_property
    def _surviving(self) -> list[float]:
        """p_i of the drafts that have the position; 0 if none has."""
        own = [share or 0.0 for share in self._positions.acceptance]
        return [*own, *self._reached[self.known :]]

    @cached_property
    def _kept(self) -> float:
        """Share of tokens that are not discarded; those accepted beyond the end of an answer are."""
        total = self._window.total
        decoded, steps, accepted = total.decoded_tokens, total.decode_steps, total.accepted_tokens
        if not steps or accepted is None or decoded is None:
            return 1.0
        return min(max(decoded, 0) / (steps + accepted), 1.0)

    @cached_property
    def _drafted(self) -> list[float]:
        """t_k for every k: an upper limit if drafts differ in length, unless by a schedule."""
        length = self._length or self.known
        cut = (self._positions.drafted_up_to(tokens) for tokens in range(self.known + 1))
        drafted = [min(tokens, length) if mean is None else mean for tokens, mean in enumerate(cut)]
        return [*drafted, *range(self.known + 1, len(self) + 1)]

    @cached_property
    def _residuals(self) -> tuple[list[list[float]], list[float]]:
        """a_i - p_i·D of each increment with drafts: summed over the first k positions, and of the last."""
        (drafted,) = columns(self._increments, "drafts")
        accepted = position_columns(self._increments, self.known)
        active = list(filter(None, drafted))
        residuals = [
            [count - p * own for count, own in zip(compress(column, drafted), active, strict=True)]
            for p, column in zip(self._reached, accepted, strict=False)
        ]
        sums = accumulate(residuals, lambda one, other: list(map(add, one, other)))
        return [[0.0] * len(active), *sums], residuals[-1]

    def _changes(self, price: StepCost, tokens: int) -> list[float]:
        """Return the contribution of each increment to S(k), with the decay taken as exact."""
        sums, last = self._residuals
        gain = self._coverage / plain_steps(price, self._coverage, self._drafted[tokens])
        last_gain = gain * sum(self._decay**more for more in range(1, tokens - self.known + 1))
        own = sums[min(tokens, self.known)]
        return [gain * first + last_gain * end for first, end in zip(own, last, strict=True)]
