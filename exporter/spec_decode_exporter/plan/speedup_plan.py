"""Expected speed-up of a server before it drafts: costs, bounds and verdict of the exporter at an acceptance.

S(k) of ``analysis.depth``, with p_i = a^(i+1), the share of drafts whose first i+1 tokens are accepted, at the
same acceptance a of every token (Leviathan, Kalman and Matias 2023, arXiv 2211.17192, section 3). The
acceptance is taken as exact: the bounds are those of the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from pydantic import Field

from spec_decode_exporter.analysis.depth import speedup
from spec_decode_exporter.analysis.verdict import SHARES, SpeedupRange, Verdict, likely_share, speedup_verdict
from spec_decode_exporter.analysis.window_evaluation import probably_pays
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings
from spec_decode_exporter.config.policy import DepthPolicy, SpeedupPolicy
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.costs.cost import CostRange, CostSource, CostSources, fixed_tokens
from spec_decode_exporter.costs.methods import drafts_what_it_finds, kind_of
from spec_decode_exporter.costs.model_architecture import architecture_of
from spec_decode_exporter.costs.published import PublishedShare, published_steps
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.views.document import View, at, computed, fact
from spec_decode_exporter.views.engine_view import CostView
from spec_decode_exporter.views.verdict_text import likely_text, range_text
from spec_decode_exporter.views.words import VERDICTS

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
    acceptance_ratio: float = at("Assumed acceptance rate of these draft tokens.")
    break_even_acceptance_ratio: float = at("Acceptance rate; above 1: never pays.")

    @property
    def bounds(self) -> Estimate:
        """The speed-up within the bounds of the cost."""
        return Estimate(self.speedup_ratio, self.speedup_ratio_lower, self.speedup_ratio_upper, 0.0)


class SpeedupPlan(View):
    """Speed-up of a model, by its name, at an assumed acceptance. Without a cost figures are null."""

    model_name: str
    method: str
    architecture: Architecture | None = Field(default=None, exclude=True)
    """That of its config.json; None to read it from the name."""
    running_requests: float = 32.0
    context_tokens: int | None = at("Tokens of a request in the KV cache.", default=None)
    draft_tokens: int = 4
    acceptance: float = Field(default=0.7, exclude=True)
    """Acceptance of a token, given that those before it were accepted."""
    given_cost_ratio: float | None = Field(default=None, exclude=True)
    drafts_in_parallel: bool = Field(default=False, exclude=True)

    # fmt: off
    token_acceptance_ratio = fact("Assumed acceptance.", float, lambda plan: plan.acceptance)
    acceptance_length_tokens = fact("Tokens of a step that drafts.", float, lambda plan: 1 + sum(plan.reached[: plan.draft_tokens]))
    speedup_ratio = fact("At this number of draft tokens and this acceptance.", float | None, lambda plan: plan.depth and plan.depth.speedup_ratio)
    speedup_ratio_lower = fact("At the highest possible cost.", float | None, lambda plan: plan.depth and plan.depth.speedup_ratio_lower)
    speedup_ratio_upper = fact("At the lowest possible cost.", float | None, lambda plan: plan.depth and plan.depth.speedup_ratio_upper)
    cost = fact("Cost at this number of draft tokens; null if unknown.", CostView | None, lambda plan: plan.known_cost and CostView.of(plan.known_cost))
    cost_source = fact("Source of that cost.", CostSource | None, lambda plan: plan.known_cost and plan.known_cost.source)
    # fmt: on

    @property
    def load(self) -> float:
        """Requests in a step."""
        return self.running_requests

    @property
    def acceptance_basis(self) -> str:
        """The acceptance that the speed-ups assume, in words."""
        return f"the assumed acceptance of {self.acceptance:.3g}"

    # Cost

    @cached_property
    def cost_model(self) -> CostSources:
        """All that is known of the cost, as the live exporter holds it."""
        settings: CostSettings | None = None
        if self.given_cost_ratio is not None:
            kind = kind_of(self.method, in_parallel=self.drafts_in_parallel)
            fixed = self.given_cost_ratio * fixed_tokens(kind, self.draft_tokens)
            settings = CostSettings(
                draft_cost_ratio=self.given_cost_ratio, fixed_cost_ratio=fixed, running_requests=self.load
            )
        architecture = self.architecture or architecture_of(self.model_name)
        return CostSources(settings, (), self.method, architecture, self.drafts_in_parallel)

    def cost_of(self, tokens: int) -> CostRange | None:
        """Return the cost of drafts of ``tokens``; None if unknown."""
        return self.cost_model.at(self.load, tokens)

    @cached_property
    def known_cost(self) -> CostRange | None:
        """Cost at the planned number of draft tokens; None if unknown."""
        return self.cost_of(self.draft_tokens)

    @property
    def has_typical_cost(self) -> bool:
        """True if the cost is by published measurements."""
        return self.known_cost is not None and self.known_cost.is_typical

    # Speed-up

    @property
    def reached(self) -> Sequence[float]:
        """p_i of every position."""
        number = max(TABLE_TOKENS, self.draft_tokens)
        return [self.acceptance ** (position + 1) for position in range(number)]

    @computed
    def depths(self) -> tuple[PlannedDepth, ...]:
        """Numbers of draft tokens; empty if the cost is unknown."""
        numbers = sorted({*range(1, TABLE_TOKENS + 1), self.draft_tokens})
        costs = ((tokens, self.cost_of(tokens)) for tokens in numbers)
        return tuple(self.at_cost(tokens, cost) for tokens, cost in costs if cost is not None)

    @property
    def depth(self) -> PlannedDepth | None:
        """The planned number of draft tokens; None if its cost is unknown."""
        return next((depth for depth in self.depths if depth.tokens == self.draft_tokens), None)

    @computed
    def verdict(self) -> Verdict:
        """Verdict by the speed-up at this acceptance and every possible cost."""
        if self.depth is None:
            return Verdict.UNCLEAR
        bounds = self.depth.bounds
        verdict = speedup_verdict(SpeedupRange(bounds, bounds.lower, bounds.upper), _SPEEDUPS)
        return Verdict.HEALTHY if verdict is Verdict.OPTIMAL and self.has_typical_cost else verdict

    @computed
    def pays_share_ratio(self) -> float | None:
        """Share of published costs, or of the possible speed-ups, at which it pays; null if unknown."""
        bounds = None if self.depth is None else self.depth.bounds
        likely = self.published_share.ratio if self.published_share else likely_share(bounds, _SPEEDUPS)
        return SHARES.get(self.verdict, likely)

    @computed
    def verdict_text(self) -> str:
        """The verdict in one sentence; if it is unclear, with what is likely."""
        depth, cost = self.depth, self.known_cost
        if depth is None or cost is None:
            return f"{self._unknown}. Measure the cost: spec-decode-exporter observe."
        if self.verdict is Verdict.UNCLEAR:
            even = sum(self.reached[: depth.tokens]) - cost.guess.step
            share, is_likely = self.published_share, probably_pays(self.pays_share_ratio)
            return likely_text(depth.bounds, even / depth.tokens, cost, share, is_likely=is_likely)
        value, lower, upper = (f"{ratio:.2f}" for ratio in depth.bounds[:3])
        return f"{VERDICTS[self.verdict].title}: {value} times as fast as without it ({lower} to {upper} {range_text(cost)}), decode only."

    @computed
    def best_tokens(self) -> int | None:
        """Fewest draft tokens that are as good as the best; 0 if none is above 1, null if the cost is typical."""
        if not self.depths or self.has_typical_cost:
            return None
        largest = max(depth.speedup_ratio for depth in self.depths)
        enough = max((1 - _TOLERANCE) * largest, 1.0)
        good = (depth.tokens for depth in self.depths if depth.speedup_ratio >= enough)
        return next(good, 0) if largest > 1 else 0

    @cached_property
    def published_share(self) -> PublishedShare | None:
        """Published costs at which this would pay; None with a cost that is about the server itself."""
        if not self.has_typical_cost:
            return None
        accepted = sum(self.reached[: self.draft_tokens])
        return self.cost_model.published_share(self.load, self.draft_tokens, accepted, 1.0)

    @property
    def _unknown(self) -> str:
        """Reason why the cost is unknown, with the speed-ups that were published."""
        steps = [step for step in published_steps(self.cost_model.kind) if step.method == self.method]
        reason = f"Too few published what drafting by {self.method} costs"
        if not steps:
            return reason
        speedups, sources = [step.speedup for step in steps], len({step.source for step in steps})
        measured = f"{plural(len(steps), 'measurement')} of {plural(sources, 'source')}"
        return f"{reason}; in {measured}, with other models, it was {min(speedups):.2f} to {max(speedups):.2f} times as fast"

    def at_cost(self, tokens: int, cost: CostRange) -> PlannedDepth:
        """Return the speed-up of a number of draft tokens at a cost."""
        accepted, price = sum(self.reached[:tokens]), cost.guess
        value, lower, upper = (speedup(end, 1.0, accepted, tokens) for end in (price, cost.high, cost.low))
        if drafts_what_it_finds(self.method):
            lower = min(lower, speedup(cost.high, 0.0, accepted, tokens))  # perhaps no step finds a draft
        return PlannedDepth(
            tokens=tokens,
            speedup_ratio=value,
            speedup_ratio_lower=lower,
            speedup_ratio_upper=upper,
            acceptance_ratio=accepted / tokens,
            break_even_acceptance_ratio=price.token + price.step / tokens,
        )


def token_acceptance(tokens: int, length: float) -> float:
    """Return the acceptance a of every token for an acceptance length: 1 + a + … + a^k = ``length``."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_low = sum(middle**position for position in range(tokens + 1)) < length
        low, high = (middle, high) if is_low else (low, middle)
    return high
