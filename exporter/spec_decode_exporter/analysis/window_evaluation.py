"""Evaluation of one window: its figures at the cost of drafting, and what they say about speculation."""

from __future__ import annotations

from dataclasses import replace
from math import inf, sqrt
from typing import Final

from propcache.api import cached_property

from spec_decode_exporter.analysis.depth import Depths
from spec_decode_exporter.analysis.end_to_end import EndToEnd, end_to_end
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.verdict import (
    NOT_PAYING,
    SHARES,
    Action,
    Advice,
    SpeedupRange,
    Verdict,
    claimed_speedup,
    likely_share,
    speedup_verdict,
)
from spec_decode_exporter.costs.cost import CostRange, StepCost
from spec_decode_exporter.costs.published import PublishedShare
from spec_decode_exporter.figures.estimate import Estimate, estimate_of, ratio
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.window.engine_windows import Window

MIN_VERDICT_REQUESTS: Final = 1.4
"""Effective requests through a window that a verdict needs; fewer are of one kind only."""
MIN_KEPT_SECONDS: Final = 240.0
"""Length of a window from which on its share of prefills is kept for a while: computing it takes long."""
GIGABYTE: Final = 10**9
TIGHT_CACHE: Final = 0.9  # share of the KV cache in use from which more of it may serve more requests
PROBABLY_PAYS: Final = 0.9
"""Share of published costs, or of the possible speed-ups, from which speculation probably pays."""
DEAD: Final = 0.05
"""Acceptance of the first position below which a drafter does not work, for SpecDecodeDrafterDead too.

Most reports of broken drafters show 0.01 to 0.02.
"""


def probably_pays(share: float | None) -> bool:
    """Return whether speculation probably pays, by the share of costs at which it would.

    No share says that it probably does not: too few published measurements test that word.
    """
    return share is not None and share >= PROBABLY_PAYS


class WindowEvaluation(WindowFigures):
    """Figures of one window that need the cost; each is computed once, if read."""

    def __init__(self, window: Window, known: Knowledge, *, is_partial: bool | None = None) -> None:
        """Evaluate a window by what is known besides."""
        super().__init__(window, is_partial=is_partial, counts_verified=not known.speculation.is_adaptive)
        self.known = known
        self._policy = known.policy

    # Cost

    @cached_property
    def cost(self) -> CostRange | None:
        """Cost of speculation at the load of the window's drafts; None if unknown."""
        if not self.known.speculates:
            return None
        tokens = self.draft_length_tokens or len(self.positions)
        found = self.known.cost.at(self.drafting_requests, tokens)
        for load in self.other_requests:
            other = self.known.cost.at(load, tokens)
            found = found.spanning(other) if found and other else found
        return found and self._of_verified(found)

    @cached_property
    def possible_cost(self) -> CostRange:
        """The cost, or the range of an unknown one."""
        return self.cost or self.known.cost.possible(self.drafting_requests)

    def _of_verified(self, cost: CostRange) -> CostRange:
        """Return a cost that is not measured, down to that of A tokens if not all of T were verified."""
        verified = ratio(self.total.accepted_tokens, self.total.draft_tokens)
        if self.counts_verified or verified is None or not cost.is_typical:
            return cost
        return replace(cost, low=cost.low._replace(token=cost.low.token * min(verified, 1.0)))

    @cached_property
    def break_even_acceptance_ratio(self) -> float | None:
        """Acceptance rate above which speculation pays: c + c0·D/T. None without drafts."""
        if self.cost is None or self.work is None or not self.counts_verified:
            return None
        price = self.cost.guess
        steps = ratio(price.paying_steps(self.work), self.work.draft_tokens)
        return None if steps is None else price.token + price.step * steps

    @cached_property
    def break_even_cost_ratio(self) -> float | None:
        """Cost of a draft token below which speculation pays, (G - F - S - c0·D)/T; c0 = 0 if unknown."""
        if self.work is None:
            return None
        fixed = 0.0 if self.cost is None else self.cost.guess.step * self.cost.guess.paying_steps(self.work)
        return ratio(self.work.tokens - self.work.steps - fixed, self.work.draft_tokens)

    @cached_property
    def break_even_cost_bounds(self) -> Estimate | None:
        """Bounds of the break-even cost, with the range of c0."""
        value, low, high = self.break_even_cost_ratio, self.possible_cost.low, self.possible_cost.high
        if value is None or not self.cosines:
            return None
        cheap = self._break_even_at(low)
        dear = cheap if low.step == high.step else self._break_even_at(high)
        if cheap is None or dear is None:
            return None
        return cheap._replace(value=value, lower=min(dear.lower, value), upper=max(cheap.upper, value))

    def _break_even_at(self, price: StepCost) -> Estimate | None:
        (tokens, steps, drafts, drafted, _), cosines = self.terms
        rows = zip(tokens, steps, steps if price.every_step else drafts, strict=True)
        gains = [decoded - own - price.step * paying for decoded, own, paying in rows]
        return estimate_of(gains, drafted, cosines, (-inf, inf))

    # Speed-up

    @cached_property
    def estimated_speedup_ratio(self) -> float | None:
        """Speed-up of decoding by speculation, at the best guess of the cost."""
        return None if self.cost is None or self.work is None else self.cost.guess.speedup(self.work)

    @cached_property
    def speedup_bounds(self) -> Estimate | None:
        """Bounds of the speed-up by sampling and the range of the cost; None if the cost is unknown."""
        return None if self.cost is None else self._bounds_at(self.cost)

    @cached_property
    def speedup_range(self) -> SpeedupRange | None:
        """Speed-up at the possible costs, also of an engine whose cost is unknown; None without steps."""
        cost = self.possible_cost
        if self.work is None:
            return None
        value, low, high = (price.speedup(self.work) for price in (cost.guess, cost.high, cost.low))
        bounds = self.speedup_bounds or self._bounds_at(cost)
        is_bounded, half = bounds is not None, self._policy.max_half_width
        if bounds is None:
            bounds = Estimate(value, (1 - half) * low, (1 + half) * high, 0.0)
        if self.total.decoded_tokens is None and self.known.drafts_what_it_finds:
            # A search that drafts in few steps has an upper limit alone, if its steps are not counted.
            bounds, low = bounds._replace(lower=0.0), 0.0
        return SpeedupRange(bounds, low, high, is_bounded)

    @cached_property
    def request(self) -> EndToEnd | None:
        """Speed-up of whole requests."""
        return end_to_end(self, self.estimated_speedup_ratio, self.speedup_bounds, self.known.baseline)

    # Return on memory

    @property
    def memory_return(self) -> float | None:
        """Tokens a second gained for each GB of drafter, (1 - 1/S)·G/t, with S the speed-up of decoding."""
        return self._gained(self.estimated_speedup_ratio)

    @property
    def memory_return_bounds(self) -> Estimate | None:
        """Bounds of that by those of S, at the same generated tokens a second."""
        its = self.speedup_bounds
        value, lower, upper = map(self._gained, its[:3]) if its and its.lower > 0 else (None,) * 3
        if value is None or lower is None or upper is None:
            return None
        return Estimate(value, lower, upper, 0.0)

    def _gained(self, speedup: float | None) -> float | None:
        rate = ratio(self.total.generation_tokens, self.window.seconds)
        if not speedup or rate is None:
            return None
        return ratio((1 - 1 / speedup) * rate * GIGABYTE, self.known.speculation.draft_bytes)

    @property
    def is_cache_tight(self) -> bool | None:
        """True if more KV cache could serve more: it is nearly full, or requests wait; None if unknown."""
        mean = self.window.mean
        if mean.kv_cache_usage_ratio is None:
            return None
        is_full = mean.kv_cache_usage_ratio >= TIGHT_CACHE
        return is_full or (mean.waiting_requests or 0.0) >= 1 or bool(self.total.preemptions)

    def _bounds_at(self, cost: CostRange) -> Estimate | None:
        """Return the lower bound at the highest cost, and the upper one at the lowest."""
        if self.work is None or not self.cosines:
            return None
        guess, slow, fast = map(self._sampled_speedup, (cost.guess, cost.high, cost.low))
        if guess is None or slow is None or fast is None:
            return None
        lower, upper = self._with_prefills(cost, min(guess.lower, slow.lower), max(guess.upper, fast.upper))
        return guess._replace(lower=lower, upper=upper)

    def _with_prefills(self, cost: CostRange, lower: float, upper: float) -> tuple[float, float]:
        """Return bounds of the speed-up with the time of prefills; each stays on its side of 1.

        Drafts do not shorten prefills: a bound is nearer to 1. But where c falls with the load, as that of a
        mixture of experts, a prefill reads what draft tokens would add: a step with one takes up to as long
        without drafts as with them.
        """
        decoding = 1 - self._prefill_share()
        lower = min(lower, 1 + (lower - 1) * decoding)
        ceiling, gain = self.speedup_ceiling_ratio, 0.0
        if ceiling and self.prefill_steps_ratio and self._falls_with_load(cost):
            gain = self.prefill_steps_ratio * max(0.0, 1 - upper / ceiling)
        highest = max(upper + gain, 1 + (upper + gain - 1) * decoding)
        return lower, min(highest, 1.0) if upper < 1 else highest

    def _prefill_share(self) -> float:
        """Return ``prefill_share_ratio``, of a long window as it is kept."""
        kept, its = self.known.prefill_shares, self.window
        if kept is None or its.seconds < MIN_KEPT_SECONDS:
            return self.prefill_share_ratio
        if its.length not in kept:
            kept[its.length] = self.prefill_share_ratio
        return kept[its.length]

    def _falls_with_load(self, cost: CostRange) -> bool:
        """Return whether a draft token costs less at twice the load."""
        if cost.is_typical:
            return False
        tokens = self.draft_length_tokens or len(self.positions)
        double = self.known.cost.at(2 * (self.drafting_requests or 0.0), tokens)
        return double is not None and double.guess.token < cost.guess.token

    def _sampled_speedup(self, price: StepCost) -> Estimate | None:
        """Return the speed-up at one cost with the bounds of sampling."""
        if self.work is None:
            return None
        tokens, plain = self.work.tokens, price.plain_steps(self.work)
        (token, step, every_step), number = price, len(self.positions)
        error = self.least_deviation(tokens / plain * token) * sqrt(self.total.drafts or 0) / plain
        longest = 1 + step + token * number
        possible = (1 / longest, max(1.0, (1 + number) / longest)) if number else (0.0, inf)
        (decoded, steps, drafts, drafted, _), cosines = self.terms
        rows = zip(steps, steps if every_step else drafts, drafted, strict=True)
        times = [own + step * paying + token * each for own, paying, each in rows]
        return estimate_of(decoded, times, cosines, possible, error)

    # Depths

    @cached_property
    def depths(self) -> Depths | None:
        """Speed-ups at other numbers of draft tokens; None without drafts or positions."""
        drafts, positions = self.total.drafts, self.positions
        return Depths(self, drafts) if drafts and len(positions) and positions.are_known else None

    # Words

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict by this window, limited by that of whole requests; by a typical cost at most healthy."""
        if self.is_insufficient or self.speedup_range is None:
            return Verdict.INSUFFICIENT
        found = speedup_verdict(self.speedup_range, self._policy.speedup)
        if found is Verdict.OPTIMAL and self.has_typical_cost:
            found = Verdict.HEALTHY
        return found if self.request is None else self.request.capped(found)

    @cached_property
    def pays_share_ratio(self) -> float | None:
        """Share of the published costs, or of the possible speed-ups, at which speculation pays."""
        return self.likely_share_ratio if self.verdict is Verdict.UNCLEAR else SHARES.get(self.verdict)

    @cached_property
    def published_share(self) -> PublishedShare | None:
        """Published costs at which this would pay; None with a cost that is about the server itself."""
        work = self.work
        if work is None or not work.drafts or not work.draft_tokens or not self.has_typical_cost:
            return None
        gain, paying = (work.tokens - work.steps, self.possible_cost.guess.paying_steps(work))
        tokens = (each / work.drafts for each in (work.draft_tokens, gain, paying))
        return self.known.cost.published_share(self.drafting_requests, *tokens)

    @property
    def has_typical_cost(self) -> bool:
        """True if the cost is by published measurements, or unknown."""
        return self.possible_cost.is_typical

    @property
    def likely_share_ratio(self) -> float | None:
        """The same before a verdict, by what is possible so far; None with few drafts."""
        if self.speedup_range is None or (self.total.drafts or 0) < self._policy.min_drafts:
            return None
        if self.published_share is not None:
            return self.published_share.ratio
        if self.cost is None:
            return None
        return likely_share(self.speedup_range.by_known, self._policy.speedup)

    @property
    def probably_pays(self) -> bool:
        """What is likely, also before a verdict; without bounds of sampling by the range of costs alone."""
        found, share = self.speedup_range, self.pays_share_ratio
        if found is None:
            return False
        if share is None or not found.is_bounded:
            share = self.likely_share_ratio
        return probably_pays(share)

    @cached_property
    def is_insufficient(self) -> bool:
        """True with too few data: partial, few drafts, wide bounds, or almost no requests."""
        length = self.acceptance_length_bounds
        if self.acceptance_length_tokens is None or self.is_partial:
            return True
        if (self.total.drafts or 0) < self._policy.min_drafts:
            return True
        if length is None:
            requests = self.effective_requests
            return requests is not None and requests < MIN_VERDICT_REQUESTS
        return length.half_width > self._policy.max_half_width * length.value

    def contradicts(self, longer: WindowEvaluation) -> bool:
        """Return whether this and the verdict of a longer window cannot both be right now."""
        length, steps = longer.acceptance_length_bounds, longer.tokens_per_step_bounds
        claimed = claimed_speedup(longer.verdict, self._policy.speedup)
        rows = (
            (self.acceptance_length_tokens, "acceptance_length_bounds", length and length[1:3]),
            (self.effective_tokens_per_step, "tokens_per_step_bounds", steps and steps[1:3]),
            (self.estimated_speedup_ratio, "speedup_bounds", claimed),
        )
        return any(limits and self.excludes(value, bounds, *limits) for value, bounds, limits in rows)

    def excludes(self, value: float | None, bounds: str, lowest: float, highest: float = inf) -> bool:
        """Return whether the bounds of a value exclude a range; not computed if the value is in it."""
        if value is not None and lowest <= value <= highest:
            return False
        its: Estimate | None = getattr(self, bounds)
        return its is not None and (its.upper < lowest or its.lower > highest)

    def advice(self, crossover: float | None) -> Advice:
        """Return the action and the number of tokens by this window; earlier conditions precede later ones.

        Args:
            crossover: Running requests above which speculation does not pay; None if unknown.
        """
        is_unsure = self.acceptance_length_bounds is None and self.passing_requests is not None
        if self.verdict is Verdict.INSUFFICIENT or is_unsure:
            return Advice()
        if self.known.faster_method is not None:
            return Advice(Action.SWITCH_METHOD)
        if self.is_dead:
            return Advice(Action.DISABLE, 0)
        tokens = self.best_tokens
        if tokens is not None and self.is_worth_a_change(tokens):
            return Advice(Action.INCREASE if tokens > len(self.positions) else Action.DECREASE, tokens)
        if self.verdict is Verdict.UNCLEAR or (self.verdict is Verdict.POOR and self.has_typical_cost):
            return Advice(Action.MEASURE_COST)
        return self._advice_at_load(crossover)

    @property
    def best_tokens(self) -> int | None:
        """Fewest draft tokens as fast as the best; None unless a cost of the server itself is known."""
        if self.has_typical_cost or self.cost is None or self.depths is None:
            return None
        return self.depths.recommended(self.cost.guess, self._policy.depth.tolerance)

    def _advice_at_load(self, crossover: float | None) -> Advice:
        running = self.drafting_requests
        is_above = crossover is not None and running is not None and running > crossover
        if self.verdict in NOT_PAYING and is_above:
            return Advice(Action.LIMIT_BATCH)
        # Another number may be better at the best guess, but is not known to pay.
        present = len(self.positions) or None
        is_slower = self.verdict is Verdict.HARMFUL or (self.request is not None and self.request.is_slower)
        return Advice(Action.DISABLE, 0) if is_slower else Advice(Action.KEEP, present)

    @property
    def first_acceptance_ratio(self) -> float | None:
        """Acceptance of the first position; without counted positions, its upper limit A/D."""
        first = self.positions.acceptance[0] if len(self.positions) and self.positions.are_known else None
        return ratio(self.total.accepted_tokens, self.total.drafts) if first is None else first

    @property
    def is_dead(self) -> bool:
        """True of a drafter whose tokens are almost never accepted."""
        first = self.first_acceptance_ratio
        return first is not None and first < DEAD

    def is_worth_a_change(self, tokens: int) -> bool:
        """Return whether k tokens are significantly faster than K at every possible cost.

        With a harmful verdict any number that pays is worth it. No speculation is not another number.
        """
        if self.cost is None or self.depths is None or tokens in {0, len(self.positions)}:
            return False
        corners, depths = (self.cost.guess, self.cost.low, self.cost.high), self.depths
        if self.verdict is Verdict.HARMFUL:
            return all(depths.pays(price, tokens) for price in corners)
        return all(depths.is_faster(price, tokens, self._policy.depth.tolerance) for price in corners)
