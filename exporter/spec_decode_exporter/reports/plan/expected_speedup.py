"""Expected speed-up of a server before it drafts: costs, bounds and verdict of the exporter at an acceptance.

S(k) of ``analysis.depth``, with p_i the share of drafts whose first i+1 tokens are accepted. Without a
measurement p_i = a^(i+1), with the same acceptance a of every token (Leviathan, Kalman and Matias 2023, arXiv
2211.17192, section 3). The acceptance is taken as exact: the bounds are those of the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Final

from pydantic import Field, InstanceOf

from spec_decode_exporter.analysis.depth import speedup
from spec_decode_exporter.analysis.verdict import (
    SpeedupRange,
    Verdict,
    pays_share,
    speedup_verdict,
)
from spec_decode_exporter.analysis.window_evaluation import probably_pays
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.policy import DepthPolicy, SpeedupPolicy
from spec_decode_exporter.costs.cost import (
    CostAtLoad,
    CostByLoad,
    CostRange,
    CostSource,
    CostSources,
    StepCost,
    fixed_tokens,
)
from spec_decode_exporter.costs.methods import DRAFT_MODEL, Interval, drafts_what_it_finds, kind_of
from spec_decode_exporter.costs.model_architecture import TargetModel, target_model
from spec_decode_exporter.costs.published import PublishedShare
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.reports.plan.observed_model import ObservedModel
from spec_decode_exporter.views.document import View, at, computed, fact
from spec_decode_exporter.views.engine_view import CostView
from spec_decode_exporter.views.verdict_text import LIKELY, claim, likely_text, range_text

TABLE_TOKENS: Final = 8
"""Largest number of draft tokens in the table, beside the planned one."""
_HALVINGS: Final = 60
_SPEEDUPS, _TOLERANCE = SpeedupPolicy(), DepthPolicy().tolerance
"""Thresholds of the exporter by default."""


class PlannedDepth(View):
    """Expected speed-up of a number of draft tokens."""

    tokens: int
    speedup_ratio: float
    speedup_ratio_lower: float = at("At the highest possible cost; of a search also if it finds nothing.")
    speedup_ratio_upper: float = at("At the lowest possible cost.")
    acceptance_ratio: float = at("Acceptance rate of these draft tokens, assumed or observed.")
    draft_cost_ratio: float
    break_even_acceptance_ratio: float = at("Acceptance rate; above 1: never pays.")
    break_even_token_acceptance_ratio: float | None = at("Acceptance of a token; null: never pays.")
    measured: bool = at("Whether all its positions were measured.")

    @property
    def bounds(self) -> Estimate:
        """The speed-up within the bounds of the cost."""
        return Estimate(self.speedup_ratio, self.speedup_ratio_lower, self.speedup_ratio_upper, 0.0)


class SpeedupPlan(View):
    """Speed-up of a model, by its name, at an assumed or observed acceptance. Without a cost figures are null."""

    model_name: str
    method: str
    running_requests: float = 32.0
    context_tokens: int | None = at("Tokens of a request in the KV cache.", default=None)
    draft_tokens: int = 4
    acceptance: float = Field(default=0.7, exclude=True)
    """Acceptance of a token, given that those before it were accepted."""
    given_cost_ratio: float | None = Field(default=None, exclude=True)
    drafts_in_parallel: bool = Field(default=False, exclude=True)
    observed: Annotated[InstanceOf[ObservedModel] | None, Field(exclude=True)] = None

    # fmt: off
    token_acceptance_ratio = fact("Assumed acceptance; null if measured.", float | None, lambda its: None if its.observed else its.acceptance)
    acceptance_length_tokens = fact("Tokens of a step that drafts, assumed or observed.", float, lambda its: 1 + sum(its.reached[: its.draft_tokens]))
    speedup_ratio = fact("At this number of draft tokens and this acceptance.", float | None, lambda its: its.depth and its.depth.speedup_ratio)
    speedup_ratio_lower = fact("At the highest possible cost.", float | None, lambda its: its.depth and its.depth.speedup_ratio_lower)
    speedup_ratio_upper = fact("At the lowest possible cost.", float | None, lambda its: its.depth and its.depth.speedup_ratio_upper)
    cost = fact("Cost at this number of draft tokens; null if unknown.", CostView | None, lambda its: its.known_cost and CostView.of(its.known_cost))
    cost_source = fact("Source of that cost.", CostSource | None, lambda its: its.known_cost and its.known_cost.source)
    observation = fact("Observation behind this plan; null without one.", ObservedModel | None, lambda its: its.observed)
    # fmt: on

    # Cost

    @property
    def load(self) -> float:
        """Requests in a step."""
        return self.running_requests

    @cached_property
    def served_model(self) -> TargetModel:
        """The served model, as far as the cost depends on it."""
        return target_model(self.model_name)

    @property
    def kind(self) -> str:
        """How the method drafts."""
        return kind_of(self.method, in_parallel=self.drafts_in_parallel)

    @cached_property
    def cost_model(self) -> CostSources:
        """All that is known of the cost, as the live exporter holds it."""
        seen = None if self.observed is None else self.observed.cost
        settings: CostSettings | None = None
        measured: tuple[CostByLoad, ...] = ()
        if self.given_cost_ratio is not None:
            fixed = self.given_cost_ratio * fixed_tokens(self.kind, self.draft_tokens)
            settings = CostSettings(
                draft_cost_ratio=self.given_cost_ratio, fixed_cost_ratio=fixed, running_requests=self.load
            )
        elif seen is not None:
            ends = seen.draft_cost_ratio_lower, seen.draft_cost_ratio, seen.draft_cost_ratio_upper
            load = max(seen.running_requests or self.load, 1.0)
            point = CostAtLoad(load, Interval(*(max(c, 0.0) for c in ends)))
            measured = (CostByLoad((point,), seen.source, max(seen.fixed_cost_ratio, 0.0)),)
        return CostSources(settings, measured, self.method, self.served_model, self.drafts_in_parallel)

    def cost_of(self, tokens: int) -> CostRange | None:
        """Return the cost of drafts of ``tokens``; None if unknown."""
        return self.cost_model.at(self.load, tokens)

    @cached_property
    def known_cost(self) -> CostRange | None:
        """Cost at the planned number of draft tokens; None if unknown."""
        return self.cost_of(self.draft_tokens)

    # Speed-up

    @property
    def reached(self) -> Sequence[float]:
        """p_i of every position."""
        number = max(TABLE_TOKENS, self.draft_tokens)
        if self.observed is not None:
            return self.observed.reached(number)
        return [self.acceptance ** (position + 1) for position in range(number)]

    @computed
    def depths(self) -> tuple[PlannedDepth, ...]:
        """Numbers of draft tokens; empty if the cost is unknown."""
        numbers = sorted({*range(1, TABLE_TOKENS + 1), self.draft_tokens})
        costs = ((tokens, self.cost_of(tokens)) for tokens in numbers)
        return tuple(self._depth(tokens, cost) for tokens, cost in costs if cost is not None)

    @property
    def depth(self) -> PlannedDepth | None:
        """The planned number of draft tokens; None if its cost is unknown."""
        return self.depth_of(self.draft_tokens)

    def depth_of(self, tokens: int) -> PlannedDepth | None:
        """Return a number of draft tokens of the table."""
        return next((depth for depth in self.depths if depth.tokens == tokens), None)

    @computed
    def verdict(self) -> Verdict:
        """Verdict by the speed-up at this acceptance and every possible cost."""
        if self.depth is None:
            return Verdict.UNCLEAR
        bounds, cost = self.depth.bounds, self.known_cost
        found = speedup_verdict(SpeedupRange(bounds, bounds.lower, bounds.upper), _SPEEDUPS)
        is_typical = cost is not None and cost.is_typical
        return Verdict.HEALTHY if found is Verdict.OPTIMAL and is_typical else found

    @computed
    def pays_share_ratio(self) -> float | None:
        """Share of published costs, or of the possible speed-ups, at which it pays; null if unknown."""
        if self.verdict is Verdict.UNCLEAR and self.published_share is not None:
            return self.published_share.ratio
        return pays_share(self.verdict, None if self.depth is None else self.depth.bounds, _SPEEDUPS)

    @computed
    def verdict_text(self) -> str:
        """The verdict in one sentence; if it is unclear, with what is likely."""
        depth, cost = self.depth, self.known_cost
        if depth is None or cost is None:
            return f"Unclear: {self._unknown}. Measure the cost: spec-decode-exporter observe."
        if self.verdict is Verdict.UNCLEAR:
            even = sum(self.reached[: depth.tokens]) - self._fixed(cost.guess)
            likely = LIKELY[probably_pays(self.pays_share_ratio)]
            return likely_text(likely, depth.bounds, even / depth.tokens, cost, self.published_share)
        bounds = f"{depth.speedup_ratio_lower:.2f} to {depth.speedup_ratio_upper:.2f} {range_text(cost)}"
        says = claim(self.verdict)
        return f"{says}: {depth.speedup_ratio:.2f} times as fast as without it ({bounds}), decode only."

    @computed
    def best_tokens(self) -> int | None:
        """Fewest draft tokens that are as good as the best; 0 if none is above 1, null if the cost is typical."""
        if not self.depths or (self.known_cost is not None and self.known_cost.is_typical):
            return None
        largest = max(depth.speedup_ratio for depth in self.depths)
        enough = max((1 - _TOLERANCE) * largest, 1.0)
        good = (depth.tokens for depth in self.depths if depth.speedup_ratio >= enough)
        return next(good, 0) if largest > 1 else 0

    @cached_property
    def published_share(self) -> PublishedShare | None:
        """Published costs at which this would pay; None with a cost that is about the server itself."""
        if self.known_cost is None or not self.known_cost.is_typical:
            return None
        paying = self._fixed(StepCost(0.0, 1.0, self.cost_model.pays_every_step))
        accepted = sum(self.reached[: self.draft_tokens])
        return self.cost_model.published_share(self.load, self.draft_tokens, accepted, paying)

    @property
    def _unknown(self) -> str:
        """Reason why the cost is unknown."""
        if self.method == DRAFT_MODEL:
            return "draft models differ too much, and too few published what theirs cost"
        return f"too few published what drafting by {self.method} costs"

    def _depth(self, tokens: int, cost: CostRange) -> PlannedDepth:
        coverage = 1.0 if self.observed is None else self.observed.coverage
        accepted, price = sum(self.reached[:tokens]), cost.guess
        value, lower, upper = (
            speedup(each, coverage, accepted, tokens) for each in (price, cost.high, cost.low)
        )
        if self.observed is None and drafts_what_it_finds(self.method):
            lower = min(lower, speedup(cost.high, 0.0, accepted, tokens))  # perhaps no step finds a draft
        of_draft = price._replace(step=self._fixed(price))
        return PlannedDepth(
            tokens=tokens,
            speedup_ratio=value,
            speedup_ratio_lower=lower,
            speedup_ratio_upper=upper,
            acceptance_ratio=accepted / tokens,
            draft_cost_ratio=price.token,
            break_even_acceptance_ratio=price.token + of_draft.step / tokens,
            break_even_token_acceptance_ratio=break_even_token_acceptance(tokens, of_draft),
            measured=self.observed is not None and tokens <= self.observed.draft_tokens,
        )

    def _fixed(self, price: StepCost) -> float:
        """Return the fixed cost for each draft: a search pays it in steps that find none, too."""
        coverage = 1.0 if self.observed is None or not price.every_step else self.observed.coverage
        return price.step / coverage


def token_acceptance(tokens: int, length: float) -> float:
    """Return the acceptance a of every token for an acceptance length: 1 + a + … + a^k = ``length``."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_low = sum(middle**position for position in range(tokens + 1)) < length
        low, high = (middle, high) if is_low else (low, middle)
    return high


def break_even_token_acceptance(tokens: int, price: StepCost) -> float | None:
    """Return the acceptance of a token at break-even; None if even 1 is too low. c0 is that of a draft."""
    wanted = 1 + price.step + price.token * tokens
    return None if wanted > tokens + 1 else token_acceptance(tokens, wanted)
