"""Bounds of the estimated speed-up and of the break-even cost: see ``decode_work`` for the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from operator import add, sub

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    cosines,
    grouped,
    independent_variance,
    ratio_estimate,
)
from spec_decode_exporter.figures.acceptance import acceptance_length
from spec_decode_exporter.figures.decode_work import DecodeWork, DraftCost, break_even_cost_ratio, work
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window
from spec_decode_exporter.window.once_per_window import once_per_window


def speedup_estimate(window: Window, cost: Cost) -> Estimate | None:
    """Return the speed-up with its bounds; None if the window has none.

    The bounds contain the sampling error and the interval of the cost: the lower one is that of the highest
    cost, the upper one that of the lowest. The standard error is that of sampling alone.
    """
    sampled = _sampled(window)
    if sampled is None:
        return None
    guess, slow, fast = (sampled.speedup(each) for each in (cost, cost.high, cost.low))
    if guess is None or slow is None or fast is None:
        return None
    return replace(guess, lower=min(guess.lower, slow.lower), upper=max(guess.upper, fast.upper))


def tokens_per_step_estimate(window: Window) -> Estimate | None:
    """Return the tokens per decode step with their bounds; None if steps are unknown."""
    number = cosines(window)
    if not number or decoded_tokens(window) is None or window[Counter.DECODE_STEPS] is None:
        return None
    columns = _columns(window)
    return ratio_estimate(
        columns.tokens,
        columns.steps,
        number,
        lowest=0.0,
        highest=1.0 + len(window.positions) if window.positions else inf,
    )


@dataclass(frozen=True, slots=True)
class SpeedupRange:
    """Speed-up at the possible costs, for the verdict."""

    estimate: Estimate
    """Best guess and bounds."""
    at_highest_cost: float
    """Speed-up at the highest cost, without the sampling error."""
    at_lowest_cost: float
    is_bounded: bool = True
    """True if the sampling error is known."""


def speedup_range(
    window: Window, cost: Cost, bounds: Estimate | None, assumed_half_width: float
) -> SpeedupRange | None:
    """Return the speed-up at the possible costs; None without decode steps.

    Args:
        window: Window of the speed-up.
        cost: Cost with its interval.
        bounds: Result of ``speedup_estimate``.
        assumed_half_width: Relative sampling error of a window without bounds.
    """
    decoded = work(window)
    if decoded is None:
        return None
    low, value, high = (decoded.tokens / decoded.plain_steps(each) for each in (cost.high, cost, cost.low))
    if bounds is not None:
        return SpeedupRange(bounds, low, high)
    lower, upper = (1 - assumed_half_width) * low, (1 + assumed_half_width) * high
    return SpeedupRange(Estimate(value, lower, upper, 0.0), low, high, is_bounded=False)


def break_even_cost_estimate(
    window: Window, cost: DraftCost | None, low: DraftCost, high: DraftCost
) -> Estimate | None:
    """Return the break-even cost of a draft token, (G - F - S - c0·D)/T, with its bounds; None without.

    The value is that of ``break_even_cost_ratio`` at ``cost``. ``low`` and ``high`` are the limits of c0.
    """
    value, sampled = break_even_cost_ratio(window, cost), _sampled(window)
    if value is None or sampled is None:
        return None
    cheap = sampled.break_even(low)
    dear = cheap if _have_same_fixed_cost(low, high) else sampled.break_even(high)
    if cheap is None or dear is None:
        return None
    return replace(cheap, value=value, lower=min(dear.lower, value), upper=max(cheap.upper, value))


@dataclass(frozen=True, slots=True)
class _Columns:
    """``DecodeWork`` of each increment."""

    tokens: Sequence[int]
    steps: Sequence[int]
    drafts: Sequence[int]
    draft_tokens: Sequence[int]

    def fixed_steps(self, cost: DraftCost) -> Sequence[int]:
        return self.steps if cost.fixed_in_every_step else self.drafts

    def plain_steps(self, cost: DraftCost) -> list[float]:
        fixed, token = cost.fixed_cost_ratio, cost.draft_cost_ratio
        rows = zip(self.steps, self.fixed_steps(cost), self.draft_tokens, strict=True)
        return [steps + fixed * paying + token * drafted for steps, paying, drafted in rows]


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Sums and columns of a window that its bounds at every cost are computed from."""

    positions: int
    """K."""
    drafts: int
    """D; at least one."""
    decoded: DecodeWork
    columns: _Columns
    cosines: int
    variance: float | None
    """Variance of the accepted tokens of one draft; None if unknown."""

    def speedup(self, cost: DraftCost) -> Estimate | None:
        """Return the speed-up at one cost, with the bounds of sampling."""
        lowest, highest = _possible(self.positions, cost)
        return ratio_estimate(
            self.columns.tokens,
            self.columns.plain_steps(cost),
            self.cosines,
            min_error=self._min_error(cost),
            lowest=lowest,
            highest=highest,
        )

    def break_even(self, cost: DraftCost) -> Estimate | None:
        """Return the break-even cost of a draft token at one c0, with the bounds of sampling."""
        columns, fixed = self.columns, cost.fixed_cost_ratio
        gains = zip(columns.tokens, columns.steps, columns.fixed_steps(cost), strict=True)
        return ratio_estimate(
            [tokens - steps - fixed * paying for tokens, steps, paying in gains],
            columns.draft_tokens,
            self.cosines,
            lowest=-inf,
            highest=inf,
        )

    def _min_error(self, cost: DraftCost) -> float:
        """Return the minimum standard error of the speed-up, that of independent drafts.

        It is that of a - m·c·t, summed over drafts of t tokens of which a are accepted, with m the speed-up.
        The counters yield the variance of a. That of t is at most t̄·(K - t̄): see ``ratio_bounds`` for A/T.
        """
        if self.variance is None:
            return 0.0
        plain, length = self.decoded.plain_steps(cost), self.decoded.draft_tokens / self.drafts
        spread = sqrt(length * max(0.0, self.positions - length))
        certain = sqrt(self.variance) - self.decoded.tokens / plain * cost.draft_cost_ratio * spread
        return max(0.0, certain) * sqrt(self.drafts) / plain


def _have_same_fixed_cost(one: DraftCost, other: DraftCost) -> bool:
    fixed = one.fixed_cost_ratio == other.fixed_cost_ratio
    return fixed and one.fixed_in_every_step == other.fixed_in_every_step


@once_per_window
def _sampled(window: Window) -> _Sampled | None:
    """Return what bounds are computed from; None if the window has none."""
    number, decoded, drafts = cosines(window), work(window), window[Counter.DRAFTS] or 0
    if not number or decoded is None:
        return None
    variance = independent_variance(window)
    return _Sampled(len(window.positions), drafts, decoded, _columns(window), number, variance)


@once_per_window
def _columns(window: Window) -> _Columns:
    """Return the columns of the window's increments for bounds, with the steps as ``work`` takes them."""
    column = grouped(window).counter
    drafts, draft_tokens = column(Counter.DRAFTS), column(Counter.DRAFT_TOKENS)
    accepted = column(Counter.ACCEPTED_TOKENS)
    if decoded_tokens(window) is None:
        return _Columns(list(map(add, drafts, accepted)), drafts, drafts, draft_tokens)
    tokens = list(map(sub, column(Counter.GENERATION_TOKENS), column(Counter.FIRST_TOKENS)))
    known = window[Counter.DECODE_STEPS] is not None
    steps = column(Counter.DECODE_STEPS) if known else list(map(sub, tokens, accepted))
    return _Columns(tokens, steps, drafts, draft_tokens)


def _possible(positions: int, cost: DraftCost) -> tuple[float, float]:
    """Return the minimum and the maximum speed-up of a step that drafts up to K tokens."""
    if not positions:
        return 0.0, inf
    step = 1 + cost.fixed_cost_ratio
    longest = step + cost.draft_cost_ratio * positions
    return 1 / longest, max(1.0, acceptance_length(positions) / longest)
