"""Verdict on speculation, in one word; docs/explanation/semantics.md defines the words."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.statistics.ratio_bounds import effective_requests
from spec_decode_exporter.config.policy import Policy, SpeedupPolicy
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


class Verdict(StrEnum):
    """Benefit of speculation; the value is the ``verdict`` label."""

    OPTIMAL = "optimal"
    HEALTHY = "healthy"
    MARGINAL = "marginal"
    POOR = "poor"
    """Hardly faster than without, or perhaps slower."""
    HARMFUL = "harmful"
    """Slower than without speculation, at every cost that is possible (95 %)."""
    UNCLEAR = "unclear"
    """Faster or slower, depending on a cost that is not known well enough."""
    INSUFFICIENT = "insufficient"
    """Too few drafts, or too wide bounds."""


PAYING = frozenset({Verdict.OPTIMAL, Verdict.HEALTHY, Verdict.MARGINAL})
"""Verdicts of speculation that is faster than none."""
NOT_PAYING = frozenset({Verdict.POOR, Verdict.HARMFUL})

MIN_VERDICT_REQUESTS = 1.4
"""Effective requests through a window that a verdict needs; fewer are of one kind only."""


def verdict(
    window: Window,
    *,
    length: Estimate | None,
    speedup: SpeedupRange | None,
    is_cost_known: bool,
    policy: Policy,
) -> Verdict:
    """Return the verdict: speculation pays by the lower bound of the speed-up and hurts by the upper one.

    Between them it is ``unclear`` if the cost decides. Else more data would decide: until then a small gain
    is ``poor``, and a larger one ``insufficient``.

    Args:
        window: Evaluated window.
        length: Bounds of the acceptance length; None if too few requests pass through the window.
        speedup: Speed-up at the possible costs. None without decode steps.
        is_cost_known: Whether the cost is more than that of any drafter. Without, no verdict exceeds healthy.
        policy: Thresholds.
    """
    if insufficient(window, length=length, policy=policy) or speedup is None:
        return Verdict.INSUFFICIENT
    found = speedup_verdict(speedup, policy.speedup)
    return Verdict.HEALTHY if found is Verdict.OPTIMAL and not is_cost_known else found


def insufficient(window: Window, *, length: Estimate | None, policy: Policy) -> bool:
    """Return whether a window has too few data for a verdict and for advice.

    It is partial, has fewer than ``min_drafts`` drafts, has too wide bounds, or has no bounds since almost no
    requests pass through it. Bounds are clipped to the possible range, so the farther one counts.
    """
    if acceptance_length_tokens(window) is None:
        return True
    if window.partial or (window[Counter.DRAFTS] or 0) < policy.min_drafts:
        return True
    if length is None:
        requests = effective_requests(window)
        return requests is not None and requests < MIN_VERDICT_REQUESTS
    return half_width(length) > policy.max_half_width * length.value


def half_width(estimate: Estimate) -> float:
    """Return the distance of the farther bound from the value."""
    return max(estimate.upper - estimate.value, estimate.value - estimate.lower)


def speedup_verdict(speedup: SpeedupRange, policy: SpeedupPolicy) -> Verdict:
    """Return the verdict by the speed-up alone: see ``verdict``."""
    bounds, even = speedup.estimate, policy.harmful
    if bounds.upper < even:
        return Verdict.HARMFUL if speedup.is_bounded else Verdict.POOR
    if bounds.value < policy.poor and (bounds.lower >= even or bounds.upper < policy.poor):
        return Verdict.POOR
    if bounds.lower < even:
        if not _sampling_decides(speedup, even):
            return Verdict.UNCLEAR
        return Verdict.POOR if bounds.value < policy.poor else Verdict.INSUFFICIENT
    ends = ((policy.marginal, Verdict.MARGINAL), (policy.healthy, Verdict.HEALTHY))
    return next((word for end, word in ends if bounds.lower < end), Verdict.OPTIMAL)


def _sampling_decides(speedup: SpeedupRange, even: float) -> bool:
    """Return whether a known cost would not suffice, since sampling alone holds break-even.

    In proportion, the bounds of sampling are as wide at the best guess as at the highest and lowest cost.
    """
    bounds = speedup.estimate
    if speedup.at_highest_cost < even <= speedup.at_lowest_cost:
        return False
    lower = bounds.lower * _ratio(bounds.value, speedup.at_highest_cost)
    upper = bounds.upper * _ratio(bounds.value, speedup.at_lowest_cost)
    return lower < even <= upper


def _ratio(value: float, at_cost: float) -> float:
    """Return the ratio of two speed-ups; 1 if both are 0."""
    return value / at_cost if at_cost else 1.0
