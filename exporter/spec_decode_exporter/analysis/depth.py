"""Speed-up S(k) at other numbers of draft tokens, estimated from the present acceptance.

With p_i the share of drafts accepted up to position i, cov the share of steps that draft (1 if unknown) and
t_k the mean tokens of a draft of at most k,

    S(k) = (1 + cov·(p_0 + … + p_{k-1})) / (1 + cov·(c0 + c·t_k))

where a drafter that searches in every step pays c0 instead of cov·c0.

Another depth is a hypothesis: p_i was measured at this K, and differs slightly at another. If a schedule
changes K, S(k) is that of the schedule with at most k tokens: p_i is then a share of all drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from operator import add, sub

from spec_decode_exporter.analysis.statistics.ratio_bounds import cosines, grouped, standard_error
from spec_decode_exporter.figures.acceptance import acceptance_length, coverage_ratio, draft_length_tokens
from spec_decode_exporter.figures.decode_work import DraftCost
from spec_decode_exporter.figures.draft_regimes import draft_regimes
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.positions import (
    decay_ratio,
    drafted_up_to,
    position_acceptance_ratios,
    tells_positions,
)
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window
from spec_decode_exporter.window.once_per_window import once_per_window

MAX_EXTRAPOLATED = 2
"""Extrapolated positions, if the decay over the known ones is known."""
WHOLE_DRAFTS = 0.95
"""Mean draft length, as a share of K, that extrapolation needs. An n-gram or suffix search that drafts fewer
than K tokens would not draft more with a larger K."""


@dataclass(frozen=True, slots=True)
class Depth:
    """Number of draft tokens, and its speed-up."""

    tokens: int
    """k; 0 means no speculation."""
    speedup: float
    """S(k): tokens per time of a plain decode step; 1 without speculation."""
    extrapolated: bool
    """True if it exceeds the positions that the engine drafts now."""


NO_SPECULATION = Depth(0, 1.0, extrapolated=False)


class _Drafts:
    """Drafts of a window: acceptance by position, coverage and draft length."""

    def __init__(self, window: Window, drafts: int) -> None:
        """Use a window with positions and ``drafts`` drafts, at least one."""
        self.number = drafts
        self.known = len(window.positions)
        reached = [accepted / drafts for accepted in window.positions]
        self.decay = min(_decay(window, reached[0]), 1.0)
        further = range(1, _beyond(window) + 1)
        self.reached = [*reached, *(reached[-1] * self.decay**more for more in further)]
        """p_i of all drafts; beyond K, p_{K-1} times the decay for each further position."""
        own = (ratio or 0.0 for ratio in position_acceptance_ratios(window))
        self.surviving = [*own, *self.reached[self.known :]]
        """p_i of the drafts that have the position; 0 if none has."""
        self._survived = [0.0, *accumulate(self.surviving)]
        self._accepted = [0.0, *accumulate(self.reached)]
        """p_0 + … + p_{k-1} for every k; a sum for each depth would take K² steps."""
        coverage = coverage_ratio(window)
        self.coverage = 1.0 if coverage is None else coverage
        length = draft_length_tokens(window) or self.known
        capped = (drafted_up_to(window, tokens) for tokens in range(self.known + 1))
        self._drafted = [
            min(tokens, length) if drafted is None else drafted for tokens, drafted in enumerate(capped)
        ]
        """t_k: the mean tokens of a draft of at most k."""
        self._changes_tokens = bool(draft_regimes(window))
        self._kept = _kept(window)

    def plain_steps(self, cost: DraftCost, tokens: int) -> float:
        """Return the plain decode steps that a step takes; an upper limit if drafts differ in length.

        Not if a schedule changes K: then the drafts by length are known.
        """
        drafted = tokens if tokens > self.known else self._drafted[tokens]
        return 1 + self.fixed_cost(cost) + cost.draft_cost_ratio * self.coverage * drafted

    def fixed_cost(self, cost: DraftCost) -> float:
        """Return the mean fixed cost of a step."""
        return cost.fixed_cost_ratio * (1.0 if cost.fixed_in_every_step else self.coverage)

    def speedup(self, cost: DraftCost, tokens: int) -> float:
        """Return S(k)."""
        return acceptance_length(self.coverage * self._accepted[tokens]) / self.plain_steps(cost, tokens)

    def depth(self, cost: DraftCost, tokens: int) -> Depth | None:
        """Return a depth with its speed-up; None for more tokens than can be extrapolated, and for none."""
        if not 0 < tokens <= len(self.reached):
            return None
        return Depth(tokens, self.speedup(cost, tokens), extrapolated=tokens > self.known)

    def pays(self, depth: Depth) -> bool:
        """Return whether a depth is at least as fast as none, without the share of discarded tokens."""
        return depth.speedup * self._kept >= 1

    def speedup_alone(self, cost: DraftCost, tokens: int, coverage: float) -> float:
        """Return S(k) of a server that drafts k tokens at most, whatever a schedule does now."""
        drafted = tokens if self._changes_tokens or tokens > self.known else self._drafted[tokens]
        fixed = cost.fixed_cost_ratio * (1.0 if cost.fixed_in_every_step else coverage)
        gained = acceptance_length(coverage * self._survived[tokens])
        return self._kept * gained / (1 + fixed + cost.draft_cost_ratio * coverage * drafted)

    def weights(self, cost: DraftCost, tokens: int) -> tuple[float, float]:
        """Return the derivative of S(k) by each of the first k known p_i, and additionally by p_{K-1}.

        The decay is taken as exact.
        """
        gain = self.coverage / self.plain_steps(cost, tokens)
        return gain, gain * sum(self.decay**more for more in range(1, tokens - self.known + 1))


def depths(window: Window, cost: DraftCost) -> tuple[Depth, ...]:
    """Return S(1) … S(K), and up to ``MAX_EXTRAPOLATED`` more.

    Empty without drafts or positions.
    """
    drafts = _drafts(window)
    if drafts is None:
        return ()
    known = (drafts.depth(cost, tokens) for tokens in range(1, len(drafts.reached) + 1))
    return tuple(depth for depth in known if depth is not None)


def recommended(window: Window, cost: DraftCost, known: Sequence[Depth], tolerance: float) -> Depth | None:
    """Return the smallest depth that pays and is as fast as the best of ``known``; None if none is known.

    As fast: within ``tolerance`` (a share of the best), or within one standard error of their difference. The
    result is no speculation if even the best does not pay. The share of tokens accepted beyond the end of
    answers reduces S(k), as it does the estimated speed-up. ``known`` is the result of ``depths``.
    """
    drafts = _drafts(window)
    if drafts is None or not known:
        return None
    best = max(known, key=lambda depth: depth.speedup)
    enough = (1 - tolerance) * best.speedup
    paying = filter(drafts.pays, known)
    return next(
        (
            depth
            for depth in paying
            if depth.speedup >= enough
            or depth.speedup >= best.speedup - _error_of_difference(window, cost, depth, best)
        ),
        NO_SPECULATION,
    )


def is_faster(window: Window, cost: DraftCost, tokens: int, tolerance: float) -> bool:
    """Return whether a number of tokens is sufficiently faster than the present one for a change.

    By more than ``tolerance`` (a share of its speed-up), and by more than one standard error of the
    difference. ``recommended`` requires the same to prefer more tokens to fewer. False for more tokens than
    can be extrapolated.
    """
    present, depth = present_depth(window, cost), _depth(window, cost, tokens)
    if present is None or depth is None:
        return False
    if present.speedup >= (1 - tolerance) * depth.speedup:
        return False
    return present.speedup < depth.speedup - _error_of_difference(window, cost, present, depth)


def pays(window: Window, cost: DraftCost, tokens: int) -> bool:
    """Return whether a number of tokens is at least as fast as none; False if it is unknown."""
    drafts, depth = _drafts(window), _depth(window, cost, tokens)
    return drafts is not None and depth is not None and drafts.pays(depth)


def present_depth(window: Window, cost: DraftCost) -> Depth | None:
    """Return S(K), the present depth; None without drafts or positions."""
    drafts = _drafts(window)
    return None if drafts is None else drafts.depth(cost, drafts.known)


def speedups_alone(window: Window, cost: DraftCost, most: int, *, searches: bool) -> tuple[float, ...]:
    """Return S(0) … S(most), each of a server that drafts this number of tokens at most, at one load.

    Unlike ``depths`` they do not depend on the schedule in force: p_i is that of the drafts with position i,
    and every step has a draft unless the method ``searches`` for one. So they may be compared at a load at
    which the server does not draft now. The share of tokens accepted beyond the end of answers reduces them.

    Empty without drafts or positions. Without drafts in every step S(0) is 1, as without speculation. There
    are no more of them than can be extrapolated.
    """
    drafts = _drafts(window)
    if drafts is None:
        return ()
    coverage = drafts.coverage if searches else 1.0
    numbers = range(1, min(most, len(drafts.reached)) + 1)
    return (1.0, *(drafts.speedup_alone(cost, tokens, coverage) for tokens in numbers))


def marginal_benefits(window: Window, cost: DraftCost, known: Sequence[Depth]) -> tuple[float, ...]:
    """Return p_k / (c·S(k)) for every position of ``known``: above 1, drafting it makes decoding faster.

    S(0) is that of a step with the fixed cost and no draft. If a schedule changes K, p_k is the share of the
    drafts that have the position. With other shorter drafts it is a lower limit: the position then costs less
    than a token per draft. Empty if c is 0.
    """
    drafts, price = _drafts(window), cost.draft_cost_ratio
    if drafts is None or not price:
        return ()
    before = (1 / (1 + drafts.fixed_cost(cost)), *(depth.speedup for depth in known))
    return tuple(
        reached / (price * speedup) for reached, speedup in zip(drafts.surviving, before, strict=False)
    )


def _depth(window: Window, cost: DraftCost, tokens: int) -> Depth | None:
    drafts = _drafts(window)
    return None if drafts is None else drafts.depth(cost, tokens)


@once_per_window
def _drafts(window: Window) -> _Drafts | None:
    drafts = window[Counter.DRAFTS]
    has_positions = window.positions and tells_positions(window)
    return _Drafts(window, drafts) if drafts and has_positions else None


def _kept(window: Window) -> float:
    """Return the share of tokens that are not discarded; those accepted beyond the end of an answer are."""
    steps, accepted = window[Counter.DECODE_STEPS], window[Counter.ACCEPTED_TOKENS]
    decoded = decoded_tokens(window)
    if not steps or accepted is None or decoded is None:
        return 1.0
    return min(max(decoded, 0) / (steps + accepted), 1.0)


def _beyond(window: Window) -> int:
    """Return the number of positions that can be extrapolated."""
    drafted, positions = draft_length_tokens(window), len(window.positions)
    if drafted is None or drafted < WHOLE_DRAFTS * positions:
        return 0
    return MAX_EXTRAPOLATED if positions > 1 else 1


def _decay(window: Window, first: float) -> float:
    """Return the ratio of each p_i beyond K to the one before.

    A single position has no decay. Its own ratio is used: the second token is then as difficult as the first,
    given that the first was right.
    """
    return first if len(window.positions) == 1 else decay_ratio(window) or 0.0


class _DepthErrors:
    """Standard errors of differences between depths, by the delta method.

    S is linear in p_i. Both depths depend on the same drafts, so the error of their difference is smaller.
    """

    def __init__(self, window: Window, drafts: _Drafts) -> None:
        increments = grouped(window)
        drafted = increments.counter(Counter.DRAFTS)
        active = list(filter(None, drafted))
        residuals = [
            [count - reached * own for count, own in zip(_where(drafted, column), active, strict=True)]
            for reached, column in zip(
                drafts.reached, map(increments.position, range(drafts.known)), strict=False
            )
        ]
        self._drafts = drafts
        self._cosines = cosines(window)
        self._last = residuals[-1]
        """a_{K-1} - p_{K-1}·D of every increment with drafts."""
        self._sums = [[0.0] * len(active), *accumulate(residuals, _added)]
        """The sums of a_i - p_i·D over the first k positions, for every k, of every increment with drafts.

        With the sums, comparing K depths takes K steps per increment instead of K².
        """

    def of_difference(self, cost: DraftCost, depth: Depth, best: Depth) -> float:
        """Return the standard error of S(best) - S(k); 0 if the window has no bounds."""
        more, less = self._changes(cost, best), self._changes(cost, depth)
        error = standard_error(list(map(sub, more, less)), self._cosines)
        return 0.0 if error is None else error / self._drafts.number

    def _changes(self, cost: DraftCost, depth: Depth) -> list[float]:
        """Return the contribution of each increment to S(k)."""
        gain, last_gain = self._drafts.weights(cost, depth.tokens)
        known = min(depth.tokens, self._drafts.known)
        return [
            gain * first + last_gain * last for first, last in zip(self._sums[known], self._last, strict=True)
        ]


def _where(drafted: Sequence[int], column: Sequence[int]) -> Sequence[int]:
    """Return the column of the increments with drafts."""
    return list(compress(column, drafted))


def _added(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return list(map(add, one, other))


def _error_of_difference(window: Window, cost: DraftCost, depth: Depth, best: Depth) -> float:
    """Return the standard error of S(best) - S(k); 0 if the window has no bounds."""
    errors = _errors(window)
    return 0.0 if errors is None else errors.of_difference(cost, depth, best)


@once_per_window
def _errors(window: Window) -> _DepthErrors | None:
    """Return the errors of a window's depths; None without drafts or positions."""
    drafts = _drafts(window)
    return None if drafts is None else _DepthErrors(window, drafts)
