"""Verdict on speculation, in one word; docs/semantics.md defines the words."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.statistics.ratio_bounds import effective_requests
from spec_decode_exporter.config.policy import AcceptancePolicy, Policy, SpeedupPolicy
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.positions import pooled_acceptance_ratio
from spec_decode_exporter.figures.server_load import drafting_requests
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


class Verdict(StrEnum):
    """Benefit of speculation; the value is the ``verdict`` label."""

    OPTIMAL = "optimal"
    HEALTHY = "healthy"
    MARGINAL = "marginal"
    POOR = "poor"
    """Hardly faster than without; perhaps slower, without enough data for ``harmful``."""
    HARMFUL = "harmful"
    """Significantly slower than without speculation (95 %)."""
    INSUFFICIENT = "insufficient"
    """Too few drafts, or too wide bounds."""


MIN_VERDICT_REQUESTS = 1.4
"""Effective requests through a window that a verdict needs; fewer are of one kind only."""


def verdict(
    window: Window,
    *,
    length: Estimate | None,
    speedup_value: float | None,
    speedup: Estimate | None,
    cost: Cost | None,
    policy: Policy,
) -> Verdict:
    """Return the verdict by the speed-up, or, with an unknown cost, by length and acceptance.

    Args:
        window: Longest window.
        length: Bounds of the acceptance length; None if too few requests pass through the window.
        speedup_value: Estimated speed-up, with or without bounds; None if the cost is unknown.
        speedup: Bounds of the estimated speed-up. Without bounds the verdict is never harmful.
        cost: Cost of the speed-up.
        policy: Thresholds.
    """
    value = acceptance_length_tokens(window)
    if value is None or insufficient(window, length=length, policy=policy):
        return Verdict.INSUFFICIENT
    if cost is None or speedup_value is None:
        return _by_length(value, length, window, policy.acceptance)
    sure = is_sure(cost, window) or _is_harmful_at_any_cost(cost, length, policy.acceptance)
    return _by_speedup(speedup_value, speedup.upper if speedup and sure else None, policy.speedup)


def insufficient(window: Window, *, length: Estimate | None, policy: Policy) -> bool:
    """Return whether a window has too few data for a verdict and for advice.

    It is partial, has fewer than ``min_drafts`` drafts, has too wide bounds, or has no bounds since almost no
    requests pass through it. Bounds are clipped to the possible range, so the farther one counts.
    """
    if window.partial or (window[Counter.DRAFTS] or 0) < policy.min_drafts:
        return True
    if length is None:
        requests = effective_requests(window)
        return requests is not None and requests < MIN_VERDICT_REQUESTS
    return half_width(length) > policy.max_half_width * length.value


def half_width(estimate: Estimate) -> float:
    """Return the distance of the farther bound from the value."""
    return max(estimate.upper - estimate.value, estimate.value - estimate.lower)


def is_sure(cost: Cost, window: Window) -> bool:
    """Return whether a cost is certain enough, and valid at the present load, for ``harmful``."""
    return cost.source is not CostSource.TYPICAL and cost.speaks_for(drafting_requests(window))


def _is_harmful_at_any_cost(cost: Cost, length: Estimate | None, policy: AcceptancePolicy) -> bool:
    """Return whether a default cost is irrelevant, since a draft yields hardly more than a plain step.

    With an unknown cost the verdict would be harmful too.
    """
    short = length is not None and length.upper < policy.harmful_length
    return short and cost.source is CostSource.TYPICAL


def _by_speedup(value: float, upper: float | None, policy: SpeedupPolicy) -> Verdict:
    if upper is not None and upper < policy.harmful:
        return Verdict.HARMFUL
    ends = (
        (policy.poor, Verdict.POOR),
        (policy.marginal, Verdict.MARGINAL),
        (policy.healthy, Verdict.HEALTHY),
    )
    return next((word for end, word in ends if value < end), Verdict.OPTIMAL)


def _by_length(length: float, bounds: Estimate | None, window: Window, policy: AcceptancePolicy) -> Verdict:
    """Return the verdict by the acceptance length, and by the pooled acceptance if positions are known."""
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
    """Return the required length; less for short drafts, which yield at most 1 + K."""
    return min(length, 1 + per_token * tokens) if tokens else length
