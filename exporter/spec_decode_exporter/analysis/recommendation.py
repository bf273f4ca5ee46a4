"""Recommended action, in one word."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.depth import Depth, is_faster, pays
from spec_decode_exporter.analysis.statistics.ratio_bounds import passing_requests
from spec_decode_exporter.analysis.verdict import NOT_PAYING, Verdict
from spec_decode_exporter.config.policy import DepthPolicy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.server_load import drafting_requests
from spec_decode_exporter.window.ledger import Window


class Action(StrEnum):
    """Recommended action about speculation; the value is the ``action`` label."""

    KEEP = "keep"
    INCREASE = "increase"
    """Draft more tokens at a time."""
    DECREASE = "decrease"
    """Draft fewer tokens at a time."""
    DISABLE = "disable"
    """Disable speculation: no number of draft tokens is known to pay."""
    LIMIT_BATCH = "limit_batch"
    """Speculate only with few running requests: it pays at a lower load."""
    SWITCH_METHOD = "switch_method"
    """Use the method of another engine that serves the same model."""
    MEASURE_COST = "measure_cost"
    """Measure the cost of drafting: whether speculation pays depends on it."""
    COLLECT = "collect"
    """No advice: too few data, or the engine is disabled, idle, stalled or unreachable."""


def recommendation(
    window: Window,
    *,
    verdict: Verdict,
    length: Estimate | None,
    cost: Cost | None,
    depth: Depth | None,
    crossover: float | None,
    better_method: bool,
    policy: DepthPolicy,
) -> Action:
    """Return the action by the evaluated window; earlier conditions precede later ones.

    The verdict of an engine without drafts is insufficient.

    Args:
        window: Evaluated window.
        verdict: Verdict. It is harmful only at every possible cost, which suffices for ``disable``.
        length: Bounds of the acceptance length; None if the window has none.
        cost: Cost of drafting; None if unknown.
        depth: Recommended number of tokens at the best guess of this cost.
        crossover: Running requests above which speculation does not pay; None if unknown.
        better_method: Another method for the same model is faster: see ``is_better``.
        policy: Thresholds.
    """
    if verdict is Verdict.INSUFFICIENT or is_unsure(window, length):
        return Action.COLLECT
    if better_method:
        return Action.SWITCH_METHOD
    if depth is not None and is_change(window, verdict, cost, depth, policy.tolerance):
        return Action.INCREASE if depth.tokens > len(window.positions) else Action.DECREASE
    if verdict is Verdict.UNCLEAR:
        return Action.MEASURE_COST
    if verdict in NOT_PAYING and is_above(crossover, window):
        return Action.LIMIT_BATCH
    return Action.DISABLE if verdict is Verdict.HARMFUL else Action.KEEP


def is_unsure(window: Window, length: Estimate | None) -> bool:
    """Return whether too few requests passed through the window for bounds.

    Other requests may differ, so advice would be about these alone. An engine that does not count requests
    never has bounds. Its advice depends on the values alone, and is never to disable.
    """
    return length is None and passing_requests(window) is not None


def is_change(
    window: Window, verdict: Verdict, cost: Cost | None, depth: Depth | None, tolerance: float
) -> bool:
    """Return whether the recommended number of tokens is worth a change from the present one.

    It must be significantly faster by more than ``tolerance``, at the lowest and at the highest possible
    cost: docs/maintainers/decisions, 8. With a harmful verdict any number that pays at
    both is worth it. No speculation is not another number of tokens.
    """
    if depth is None or cost is None or depth.tokens in (0, len(window.positions)):
        return False
    corners = (cost, cost.low, cost.high) if cost.interval else (cost,)
    if verdict is Verdict.HARMFUL:
        return all(pays(window, corner, depth.tokens) for corner in corners)
    return all(is_faster(window, corner, depth.tokens, tolerance) for corner in corners)


def is_better(other: Estimate, this: Estimate) -> bool:
    """Return whether another method's speed-up is above 1 and significantly higher (95 %) than this one's."""
    return other.lower > max(this.upper, 1.0)


def is_above(crossover: float | None, window: Window) -> bool:
    """Return whether more requests run than speculation pays for."""
    running = drafting_requests(window)
    return crossover is not None and running is not None and running > crossover
