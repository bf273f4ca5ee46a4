"""Whether speculation pays, in one word; docs/semantics.md says what each word rests on."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.analysis.statistics.ratio_bounds import passing_requests
from spec_decode_exporter.config.policy import AcceptancePolicy, Policy, SpeedupPolicy
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.positions import pooled_acceptance_ratio
from spec_decode_exporter.figures.server_load import drafting_requests
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


class Verdict(StrEnum):
    """What speculation is worth; the value is the ``verdict`` label."""

    OPTIMAL = "optimal"
    HEALTHY = "healthy"
    MARGINAL = "marginal"
    POOR = "poor"
    """Hardly faster than without; perhaps slower, where not enough is known to call it harmful."""
    HARMFUL = "harmful"
    """Slower than without speculation, beyond doubt."""
    INSUFFICIENT = "insufficient"
    """Too little was drafted, or too unevenly, to say."""


MIN_VERDICT_REQUESTS = 2.0
"""With fewer passing through a window one after the other, it shows one kind of request and no more."""


def verdict(
    window: Window,
    *,
    length: Estimate | None,
    speedup_value: float | None,
    speedup: Estimate | None,
    cost: Cost | None,
    policy: Policy,
) -> Verdict:
    """Judge the longest window: by the speed-up, or, where the cost is unknown, by length and acceptance.

    Args:
        window: The longest window.
        length: Bounds of the acceptance length; None where too few requests pass through the window.
        speedup_value: The estimated speed-up, also where it has no bounds; None where the cost is unknown.
        speedup: Bounds of the estimated speed-up. Without bounds nothing is harmful.
        cost: What the speed-up rests on.
        policy: The thresholds.
    """
    value = acceptance_length_tokens(window)
    if value is None or insufficient(window, length=length, policy=policy):
        return Verdict.INSUFFICIENT
    if cost is None or speedup_value is None:
        return _by_length(value, length, window, policy.acceptance)
    sure = is_sure(cost, window) or _is_harmful_at_any_cost(cost, length, policy.acceptance)
    return _by_speedup(speedup_value, speedup.upper if speedup and sure else None, policy.speedup)


def insufficient(window: Window, *, length: Estimate | None, policy: Policy) -> bool:
    """Return whether a window says too little for a verdict and for advice.

    It is partial, has fewer than ``min_drafts`` drafts, or bounds too far from the acceptance length; or it
    has no bounds, because next to no requests pass through it. Bounds are clipped to what is possible, so the
    farther one counts.
    """
    if window.partial or (window[Counter.DRAFTS] or 0) < policy.min_drafts:
        return True
    if length is None:
        requests = passing_requests(window)
        return requests is not None and requests < MIN_VERDICT_REQUESTS
    return half_width(length) > policy.max_half_width * length.value


def half_width(estimate: Estimate) -> float:
    """Return how far the farther bound is from the value."""
    return max(estimate.upper - estimate.value, estimate.value - estimate.lower)


def is_sure(cost: Cost, window: Window) -> bool:
    """Return whether a cost is known well enough, and for the present load, to call speculation harmful."""
    return cost.source is not CostSource.DEFAULT and cost.speaks_for(drafting_requests(window))


def _is_harmful_at_any_cost(cost: Cost, length: Estimate | None, policy: AcceptancePolicy) -> bool:
    """Return whether a default cost does not matter, since a draft gives hardly more than a plain step does.

    An unknown cost would call that harmful; to know what the method usually costs makes it no better.
    """
    short = length is not None and length.upper < policy.harmful_length
    return short and cost.source is CostSource.DEFAULT


def _by_speedup(value: float, upper: float | None, policy: SpeedupPolicy) -> Verdict:
    if upper is not None and upper < policy.harmful:
        return Verdict.HARMFUL
    ends = (
        (policy.poor, Verdict.POOR),
        (policy.marginal, Verdict.MARGINAL),
        (policy.healthy, Verdict.HEALTHY),
    )
    return next((found for end, found in ends if value < end), Verdict.OPTIMAL)


def _by_length(length: float, bounds: Estimate | None, window: Window, policy: AcceptancePolicy) -> Verdict:
    """Judge by the acceptance length, and by the pooled acceptance where the engine tells its positions."""
    tokens, pooled = len(window.positions), pooled_acceptance_ratio(window)
    optimal = _reachable(policy.optimal_length, policy.optimal_length_per_token, tokens)
    healthy = _reachable(policy.healthy_length, policy.healthy_length_per_token, tokens)
    if bounds is not None and bounds.upper < policy.harmful_length:
        return Verdict.HARMFUL
    if length < policy.poor_length or (pooled is not None and pooled < policy.poor_ratio):
        return Verdict.POOR
    if length > optimal and (pooled is None or pooled > policy.optimal_ratio):
        return Verdict.OPTIMAL
    if length >= healthy and (pooled is None or pooled >= policy.healthy_ratio):
        return Verdict.HEALTHY
    return Verdict.MARGINAL


def _reachable(length: float, per_token: float, tokens: int) -> float:
    """Return the length that is asked for: less of a short draft, which cannot give more than 1 + K."""
    return min(length, 1 + per_token * tokens) if tokens else length
