"""State of speculation, verdict and recommended action, and the verdict by a speed-up."""

from __future__ import annotations

from enum import StrEnum
from math import inf, log
from typing import Final, NamedTuple

from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.window.engine_windows import Window

WHOLE_WINDOW: Final = 0.85
"""Share of its length that a whole window covers, to allow for jitter and one or two failed polls."""
STALL_SECONDS: Final = 120.0
"""Seconds of decode steps without a draft that are a stall, or the longest window if that is shorter."""


class State(StrEnum):
    """State of speculation; the value is the ``state`` label."""

    DISABLED = "disabled"
    UNKNOWN = "unknown"
    """Not known yet: one poll, or a front end that always counts drafts, and has hardly decoded."""
    IDLE = "idle"
    ACTIVE = "active"  # it drafts, or searches for something to draft
    STALLED = "stalled"  # it drafted before and should now, but did not for ``STALL_SECONDS`` of decode steps
    UNREACHABLE = "unreachable"


class Verdict(StrEnum):
    """Benefit of speculation; the value is the ``verdict`` label."""

    OPTIMAL = "optimal"
    HEALTHY = "healthy"
    MARGINAL = "marginal"
    POOR = "poor"
    HARMFUL = "harmful"  # slower than without speculation, at every cost that is possible (95 %)
    UNCLEAR = "unclear"  # faster or slower, depending on a cost that is not known well enough
    INSUFFICIENT = "insufficient"


NOT_PAYING: Final = frozenset({Verdict.POOR, Verdict.HARMFUL})
PAYING: Final = (Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL)  # ascending
SHARES: Final = {**dict.fromkeys(NOT_PAYING, 0.0), **dict.fromkeys(PAYING, 1.0)}
"""Share of the possible speed-ups at which speculation pays, by sure verdicts.

So small a gain as that of ``poor`` is not worth the memory of a drafter.
"""


class Action(StrEnum):
    """Recommended action; the value is the ``action`` label."""

    KEEP = "keep"
    INCREASE = "increase"
    DECREASE = "decrease"
    DISABLE = "disable"
    LIMIT_BATCH = "limit_batch"  # speculate only with few running requests: it pays at a lower load
    SWITCH_METHOD = "switch_method"
    MEASURE_COST = "measure_cost"  # measure the cost of drafting: whether speculation pays depends on it
    COLLECT = "collect"  # no advice: too few data, or the engine is disabled, idle, stalled or unreachable


class Advice(NamedTuple):
    """Recommended action and number of draft tokens."""

    action: Action = Action.COLLECT
    tokens: int | None = None
    """The one number that all readers show: those in use to keep, 0 for none; None without a number."""


class Decision(NamedTuple):
    """Verdict and advice, which are shown as one."""

    verdict: Verdict = Verdict.INSUFFICIENT
    advice: Advice = Advice()


class SpeedupRange(NamedTuple):
    """Speed-up at the possible costs."""

    estimate: Estimate  # best guess and bounds
    at_highest_cost: float  # without the sampling error
    at_lowest_cost: float
    is_bounded: bool = True  # True if the sampling error is known

    @property
    def by_known(self) -> Estimate:
        """Bounds; without the sampling error by the range of costs alone."""
        ends = self.estimate._replace(lower=self.at_highest_cost, upper=self.at_lowest_cost)
        return self.estimate if self.is_bounded else ends


def speedup_verdict(speedup: SpeedupRange, policy: SpeedupPolicy) -> Verdict:
    """Return the verdict: speculation pays by the lower bound of the speed-up and hurts by the upper one.

    Between them it is ``unclear`` if the cost decides. Else more data would decide: until then a small gain
    is ``poor``, and a larger one ``insufficient``.
    """
    bounds, even = speedup.estimate, policy.harmful
    if bounds.upper < even:
        return Verdict.HARMFUL if speedup.is_bounded else Verdict.POOR
    if bounds.value < policy.poor and (bounds.lower >= even or bounds.upper < policy.poor):
        return Verdict.POOR
    if bounds.lower < even:
        if not _sampling_decides(speedup, even):
            return Verdict.UNCLEAR
        return Verdict.POOR if bounds.value < policy.poor else Verdict.INSUFFICIENT
    if bounds.value < policy.marginal:
        return Verdict.MARGINAL
    return Verdict.HEALTHY if bounds.value < policy.healthy else Verdict.OPTIMAL


def _sampling_decides(speedup: SpeedupRange, even: float) -> bool:
    """Return whether a known cost would not suffice, since sampling alone holds break-even.

    In proportion, the bounds of sampling are as wide at the best guess as at the highest and lowest cost.
    """
    bounds, slow, fast = speedup.estimate, speedup.at_highest_cost, speedup.at_lowest_cost
    if slow < even <= fast:
        return False
    lower = bounds.lower * (bounds.value / slow if slow else 1.0)
    upper = bounds.upper * (bounds.value / fast if fast else 1.0)
    return lower < even <= upper


def likely_share(bounds: Estimate | None, policy: SpeedupPolicy) -> float | None:
    """Return the share of bounds, on a logarithmic scale, above break-even; None without a lower limit.

    The scale is logarithmic since a speed-up is a ratio: 2 and 0.5 are equally far from 1.
    """
    if bounds is None or not 0 < bounds.lower < bounds.upper:
        return None
    share = log(bounds.upper / policy.harmful) / log(bounds.upper / bounds.lower)
    return min(max(share, 0.0), 1.0)


def claimed_speedup(verdict: Verdict, policy: SpeedupPolicy) -> tuple[float, float]:
    """Return the least and the most that a verdict claims of the speed-up."""
    if verdict in PAYING:
        return policy.harmful, inf
    return 0.0, {Verdict.POOR: policy.poor, Verdict.HARMFUL: policy.harmful}.get(verdict, inf)


def is_stalled(recent: Window, min_drafts: int) -> bool:
    """Return whether a whole window has decode steps, and none of them a draft."""
    is_whole = recent.seconds >= WHOLE_WINDOW * recent.length
    return recent.total.drafts == 0 and is_whole and (decoded_steps(recent) or 0) > min_drafts


def decoded_steps(window: Window) -> int | None:
    """Return the decode steps, or their tokens: without drafts, one per step."""
    total = window.total
    known = (total.decode_steps, total.decoded_tokens, total.generation_tokens)
    return next((count for count in known if count is not None), None)
