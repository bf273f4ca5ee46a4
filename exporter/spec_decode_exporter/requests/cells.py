"""Sums over requests in cells of time: windows, totals, types, temperatures, prompts and users add them up.

A request is a row of ``Sums``, evaluated at the cost of drafting when it arrives. So an evaluation reads no
request again, and memory depends on the number of keys, not on that of requests.

**Speed-up.** A request of D drafts with T tokens gave x = G - 1 tokens after the first in S decode steps.
They took y = S + c0·D + c·T plain decode steps (see ``costs.cost``), or S·(1 + c0) + c·T if every step
pays the fixed cost. Over n requests the speed-up is m = Σx / Σy, a ratio estimator (Cochran, *Sampling
Techniques*, 1977, section 6.3) with the standard error s = √(n/(n - 1) · Σ (x - m·y)²) / Σy and Student's t
with n - 1 degrees of freedom. Whole requests are the sample: correlation within a request does not make the
bounds too narrow; that between requests of one conversation does. If the cost is an interval, the lower bound
is that at its highest corner, and the upper bound that at its lowest.

**Percentiles** are those of bins. A histogram is one integer with a lane of bits for each bin, so that adding
two of them is one addition, and a cell takes up to 7 KB.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from math import floor, log10
from operator import add
from typing import Final, NamedTuple

from spec_decode_exporter.costs.cost import CostRange, CostSource
from spec_decode_exporter.figures.estimate import Estimate, ratio, sampled_ratio
from spec_decode_exporter.figures.quantile import SPREAD_QUANTILES
from spec_decode_exporter.requests.record import RequestRecord, RequestSource

CELL_SECONDS: Final = 5.0
FINE_CELLS: Final = 61
"""Cells that are never merged: those of five minutes, and the present one."""
MINUTE: Final = 12
"""Cells that are merged to one."""
MIN_REQUESTS: Final = 30
"""Below, the error of a ratio estimator is itself unknown (Cochran, section 6.8)."""
ACCEPTANCE_RATIO_BOUNDS: Final = (0.05, *(tenth / 10 for tenth in range(1, 10)), 0.95, 1.0)
ACCEPTANCE_LENGTH_BOUNDS: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0)
"""In tokens; K tokens give at most 1 + K, and K rarely exceeds 15."""
ACCEPTANCE_BINS: Final = 20
"""Bins of the acceptance histogram of a model."""
_RATIO_PARTS: Final = 100
"""Bins of A/T are 0.01 wide: percentiles are within 0.01 of the exact ones."""
_LENGTH_PARTS, _FINE_LENGTH = 20, 4
"""Bins of A/D are 0.05 wide up to 4."""
_COARSE_PARTS, _MAX_LENGTH = 4, 16
"""From there 0.25, and above 16 there is one: a high value takes a lane for each bin below it."""
_DECADE: Final = 30
"""Bins of a time within a factor of ten: their geometric middle is within 4 % of each value."""
_SHORTEST: Final = 1e-4
_LONGEST: Final = 1e4
"""Seconds. Shorter and longer times are in the first and in the last bin."""
_LANE: Final = 32
"""Bits of a lane; a window has fewer requests than fit."""
_WIDE_LANE: Final = 64
"""Bits of a lane of what is counted since the start."""


class Effect(StrEnum):
    """Statistically significant effect of speculation on requests: a label value and a word of the API."""

    GAINS = "gains"
    """The lower bound of the speed-up is above 1."""
    LOSES = "loses"
    """The upper bound is below 1."""
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles over requests, each counting once."""

    p10: float
    """The 10th percentile."""
    p50: float
    """The median."""
    p90: float
    """The 90th percentile."""


@dataclass(frozen=True, slots=True)
class RequestHistogram:
    """Histogram over requests since the exporter's start."""

    upper_bounds: Sequence[float]
    """Ascending; a value equal to a bound is below it. The label `le` of the metric."""
    counts: Sequence[int]
    """Between two bounds, not cumulative; the last above every bound."""
    sum: float
    """Sum of the values."""

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)


class _Fields(NamedTuple):
    """Sums over requests with D drafts, T draft tokens and A accepted ones. An unknown value is None.

    ``drafted`` requests have known drafts; the products are for the bounds of their acceptance length.
    ``looked_up`` are the prompt tokens of requests that report their cached ones. ``evaluated`` requests have
    decode steps and a known cost; the fields from there to ``yy_high`` are theirs. y is at the best guess of
    the cost, at its lowest and at its highest. ``costs`` are c, weighted by drafts; ``fixed_costs`` are c0,
    weighted by the steps that pay it. Buckets are histograms by the metrics' bounds, bins are finer ones.
    """

    requests: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0  # saved: none needed its own step of the target
    rejected: int = 0  # pathological: almost none of the draft tokens were accepted
    repetitive: int = 0  # pathological: almost all were, as in a repetition loop
    ratios: float = 0.0  # A/T
    lengths: float = 0.0  # 1 + A/D
    drafted: int = 0
    drafted_accepted: int = 0
    accepted_squared: int = 0
    drafts_accepted: int = 0
    drafts_squared: int = 0
    prompted: int = 0
    prompt_tokens: int = 0
    looked_up: int = 0
    cached_tokens: int = 0
    evaluated: int = 0
    below_break_even: int = 0  # speculation made them slower
    typical_costs: int = 0  # requests whose cost is the method's typical cost
    evaluated_steps: int = 0
    evaluated_drafts: int = 0
    costs: float = 0.0
    fixed_costs: float = 0.0
    x: int = 0
    xx: int = 0
    y: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    y_low: float = 0.0
    xy_low: float = 0.0
    yy_low: float = 0.0
    y_high: float = 0.0
    xy_high: float = 0.0
    yy_high: float = 0.0
    ratio_buckets: int = 0
    length_buckets: int = 0
    ratio_bins: int = 0
    length_bins: int = 0
    token_second_bins: int = 0
    first_token_bins: int = 0


class Sums(_Fields):
    """The sums, and what follows from them: estimates and percentiles are computed at the first reading."""

    @cached_property
    def acceptance_ratio(self) -> Percentiles | None:
        """Percentiles of A/T of requests that drafted."""
        return _percentiles(self.ratio_bins, lambda place: _between(place, _RATIO_PARTS))

    @cached_property
    def acceptance_length_tokens(self) -> Percentiles | None:
        """Percentiles of 1 + A/D."""
        return _percentiles(self.length_bins, _length)

    @cached_property
    def time_per_output_token_seconds(self) -> Percentiles | None:
        """Percentiles of decode_seconds / (G - 1), of requests that report both."""
        return _percentiles(self.token_second_bins, _seconds)

    @cached_property
    def time_to_first_token_seconds(self) -> Percentiles | None:
        """Percentiles over requests that report it."""
        return _percentiles(self.first_token_bins, _seconds)

    @property
    def mean_acceptance_ratio(self) -> float | None:
        """Mean over requests that drafted; the server's counters weigh by draft tokens."""
        return ratio(self.ratios, sum(_lanes(self.ratio_buckets, _WIDE_LANE)))

    @property
    def acceptance_counts(self) -> list[int]:
        """Requests by A/T in ``ACCEPTANCE_BINS``; a bound belongs to the bin above it, 1 to the last."""
        counts = [0] * ACCEPTANCE_BINS
        for place, number in enumerate(_lanes(self.ratio_bins)):
            counts[min(place // 2 * ACCEPTANCE_BINS // _RATIO_PARTS, ACCEPTANCE_BINS - 1)] += number
        return counts

    @property
    def acceptance_ratio_histogram(self) -> RequestHistogram:
        """Requests by A/T."""
        return _histogram(ACCEPTANCE_RATIO_BOUNDS, self.ratio_buckets, self.ratios)

    @property
    def acceptance_length_tokens_histogram(self) -> RequestHistogram:
        """Requests by 1 + A/D."""
        return _histogram(ACCEPTANCE_LENGTH_BOUNDS, self.length_buckets, self.lengths)

    @property
    def mean_prompt_tokens(self) -> float | None:
        """Mean length of the prompts."""
        return ratio(self.prompt_tokens, self.prompted)

    @property
    def cached_ratio(self) -> float | None:
        """Share of the prompt tokens that the prefix cache had, of requests that report it."""
        return ratio(self.cached_tokens, self.looked_up)

    @cached_property
    def acceptance_length(self) -> Estimate | None:
        """1 + ΣA/ΣD with bounds from the variance between requests; None of too few requests."""
        known = self.drafted, self.drafted_accepted, self.accepted_squared
        found = ratio_estimate(*known, self.drafts, self.drafts_accepted, self.drafts_squared)
        return found and found._replace(value=1 + found.value, lower=1 + found.lower, upper=1 + found.upper)

    @cached_property
    def speedup_ratio(self) -> Estimate | None:
        """Speed-up of all tokens; its bounds hold for every cost within the interval."""
        known = self.evaluated, self.x, self.xx
        found = ratio_estimate(*known, self.y, self.xy, self.yy)
        low = ratio_estimate(*known, self.y_low, self.xy_low, self.yy_low)
        high = ratio_estimate(*known, self.y_high, self.xy_high, self.yy_high)
        return found._replace(lower=high.lower, upper=low.upper) if found and low and high else None

    @property
    def effect(self) -> Effect:
        """Statistically significant (95 %) effect of speculation, at any possible cost."""
        speedup = self.speedup_ratio
        if speedup is None or speedup.lower <= 1 <= speedup.upper:
            return Effect.UNCLEAR
        return Effect.GAINS if speedup.lower > 1 else Effect.LOSES

    @property
    def one_token_speedup(self) -> float:
        """Minimum speed-up of drafting one token, from the acceptance of longer drafts; 0 if unknown.

        Each draft ends with a rejection or at its last token. So at least A of the D + A verified tokens are
        right. With that share a, one draft token gives (S + a·D) / (S + c0·D + c·D), with S·c0 if every step
        pays the fixed cost.
        """
        verified = self.drafts + self.drafted_accepted
        if not self.evaluated_drafts or self.draft_tokens <= self.drafts:
            return 0.0
        tokens = self.evaluated_steps + self.drafted_accepted / verified * self.evaluated_drafts
        return tokens / (self.evaluated_steps + self.fixed_costs + self.costs)


NO_SUMS: Final = Sums()
Cells = dict[int, Sums]
"""Cells of one key, by the number of ``CELL_SECONDS`` since the clock's start."""


def plus(one: Sums, other: Sums) -> Sums:
    """Return the sum of two sums."""
    return Sums._make(map(add, one, other))


def added(parts: Iterable[Sums]) -> Sums:
    """Return the sum of any number of sums."""
    return Sums._make(map(sum, zip(NO_SUMS, *parts, strict=True)))


def row_of(request: RequestRecord, cost: CostRange | None) -> Sums:
    """Return the sums of one request."""
    return Sums._make((*_counted(request), *_evaluated(request, cost), *_binned(request)))


def _counted(request: RequestRecord) -> tuple[float, ...]:
    """Return the fields from ``requests`` to ``cached_tokens``, in their order."""
    drafts, tokens, accepted = request.drafts, request.draft_tokens, request.accepted_tokens
    prompt, cached, pathology = request.prompt_tokens, request.cached_tokens, request.pathology
    return (
        *(1, drafts, tokens, accepted, pathology == "rejected", pathology == "repetitive"),
        accepted / tokens if tokens else 0.0,
        *(
            (1 + accepted / drafts, 1, accepted, accepted**2, drafts * accepted, drafts**2)
            if drafts
            else _NONE[:6]
        ),
        *(prompt is not None, prompt or 0, 0 if cached is None else prompt or 0, cached or 0),
    )


def _evaluated(request: RequestRecord, cost: CostRange | None) -> tuple[float, ...]:
    """Return the fields from ``evaluated`` to ``yy_high``, in their order."""
    x, drafts, tokens = request.decoded_tokens, request.drafts, request.draft_tokens
    steps = max(drafts, x - request.accepted_tokens)
    if cost is None or not steps or request.source is RequestSource.USAGE:
        return _NONE
    paying = steps if cost.every_step else drafts
    corners = (cost.guess, cost.low, cost.high)
    y, low, high = (steps + price.step * paying + price.token * tokens for price in corners)
    return (
        *(1, x < y, cost.source is CostSource.TYPICAL, steps, drafts),
        *(drafts * cost.guess.token, paying * cost.guess.step, x, x * x),
        *(y, x * y, y * y, low, x * low, low * low, high, x * high, high * high),
    )


_NONE: Final = (0,) * 18


def _binned(request: RequestRecord) -> tuple[int, ...]:
    """Return the fields from ``ratio_buckets`` on, in their order: a 1 in each lane, or 0 if unknown."""
    drafts, tokens, accepted = request.drafts, request.draft_tokens, request.accepted_tokens
    seconds, answer = request.decode_seconds, request.completion_tokens or 0
    return (
        1 << _WIDE_LANE * bisect_left(ACCEPTANCE_RATIO_BOUNDS, accepted / tokens) if tokens else 0,
        1 << _WIDE_LANE * bisect_left(ACCEPTANCE_LENGTH_BOUNDS, 1 + accepted / drafts) if drafts else 0,
        1 << _LANE * _place(accepted, tokens, _RATIO_PARTS) if tokens else 0,
        1 << _LANE * _length_place(accepted, drafts) if drafts else 0,
        0 if seconds is None or answer <= 1 else 1 << _LANE * _time_place(seconds / (answer - 1)),
        0 if request.first_token_seconds is None else 1 << _LANE * _time_place(request.first_token_seconds),
    )


def _place(numerator: int, denominator: int, parts: int) -> int:
    """Return the bin of a ratio: 2·i if it is i / ``parts``, and 2·i + 1 from there to the next multiple."""
    whole, rest = divmod(parts * numerator, denominator)
    return 2 * whole + (rest > 0)


def _between(place: int, parts: int) -> float:
    """Return the middle of the ratios of a bin."""
    return (place // 2 + (place % 2) / 2) / parts


def _length_place(accepted: int, drafts: int) -> int:
    fine, coarse = min(accepted, _FINE_LENGTH * drafts), min(accepted, _MAX_LENGTH * drafts)
    return _place(fine, drafts, _LENGTH_PARTS) + _place(coarse - fine, drafts, _COARSE_PARTS)


def _length(place: int) -> float:
    """Return the middle of the acceptance lengths of a bin."""
    fine = min(place, 2 * _LENGTH_PARTS * _FINE_LENGTH)
    return 1 + _between(fine, _LENGTH_PARTS) + _between(place - fine, _COARSE_PARTS)


def _time_place(seconds: float) -> int:
    return floor(log10(min(max(seconds, _SHORTEST), _LONGEST) / _SHORTEST) * _DECADE)


def _seconds(place: int) -> float:
    """Return the geometric middle of the times of a bin."""
    return float(_SHORTEST * 10 ** ((place + 0.5) / _DECADE))


def _lanes(histogram: int, bits: int = _LANE) -> array[int]:
    """Return the numbers in the lanes of a histogram."""
    numbers = array("Q" if bits == _WIDE_LANE else "I")
    numbers.frombytes(histogram.to_bytes(-(-histogram.bit_length() // bits) * bits // 8, sys.byteorder))
    return numbers


def _histogram(bounds: Sequence[float], buckets: int, total: float) -> RequestHistogram:
    counts = _lanes(buckets, _WIDE_LANE).tolist()
    return RequestHistogram(bounds, [*counts, *[0] * (len(bounds) + 1 - len(counts))], total)


def _percentiles(histogram: int, middle: Callable[[int], float]) -> Percentiles | None:
    """Return percentiles by type 7 of Hyndman and Fan (1996); a value is the ``middle`` of its bin."""
    below = list(accumulate(_lanes(histogram)))
    if not below:
        return None

    def percentile(percent: int) -> float:
        index, part = divmod(percent * (below[-1] - 1), 100)
        lower = middle(bisect_right(below, index))
        return lower + (middle(bisect_right(below, index + 1)) - lower) * part / 100 if part else lower

    return Percentiles(*(percentile(round(100 * share)) for _, share in SPREAD_QUANTILES))


def ratio_estimate(  # noqa: PLR0917
    number: int, x: float, xx: float, y: float, xy: float, yy: float
) -> Estimate | None:
    """Return Σx / Σy over a ``number`` of requests with its 95 % bounds; None below ``MIN_REQUESTS``."""
    if number < MIN_REQUESTS or not y:
        return None
    return sampled_ratio(number, x, xx, y, xy, yy)


def aged(cells: Cells, newest: int, first: int) -> Cells:
    """Return the cells from ``first`` on; minutes beyond ``FINE_CELLS`` are one cell, that of their end."""
    kept: Cells = {}
    for number, cell in cells.items():
        end = number - number % MINUTE + MINUTE - 1
        place = number if end > newest - FINE_CELLS else end
        if number >= first:
            kept[place] = plus(kept[place], cell) if place in kept else cell
    return kept


def since(cells: Cells, moment: float) -> Sums:
    """Return the sum of the cells that ended after a moment."""
    return added(cell for number, cell in cells.items() if (number + 1) * CELL_SECONDS > moment)
