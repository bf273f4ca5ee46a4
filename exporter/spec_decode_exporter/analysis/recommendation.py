"""Recommended action, in one word."""

from __future__ import annotations

from enum import StrEnum

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.depth import Depth, is_faster
from spec_decode_exporter.analysis.statistics.ratio_bounds import passing_requests
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.policy import DepthPolicy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.positions import least_drafted, tells_positions
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.server_load import drafting_requests
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


class Action(StrEnum):
    """Recommended action about speculation; the value is the ``action`` label."""

    KEEP = "keep"
    INCREASE = "increase"
    """Draft more tokens at a time."""
    DECREASE = "decrease"
    """Draft fewer tokens at a time; none if 0 are recommended."""
    DISABLE = "disable"
    """Disable speculation: no number of draft tokens is known to pay."""
    LIMIT_BATCH = "limit_batch"
    """Speculate only with few running requests: it pays at a lower load."""
    SWITCH_METHOD = "switch_method"
    """Use the method of another engine that serves the same model."""
    COLLECT = "collect"
    """No advice: too few data, or the engine is disabled, idle, stalled or unreachable."""


_BAD = (Verdict.POOR, Verdict.HARMFUL)


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
    """Return the action by the longest window; earlier conditions precede later ones.

    The verdict of an engine without drafts is insufficient.

    Args:
        window: Longest window.
        verdict: Verdict. It is harmful only with bounds, and with a cost that is certain or irrelevant. This
            suffices for ``disable`` if no depth pays.
        length: Bounds of the acceptance length; None if the window has none.
        cost: Cost of drafting; None if unknown.
        depth: Recommended number of tokens at this cost.
        crossover: Running requests above which speculation does not pay; None if unknown.
        better_method: Whether another method for the same model is faster: see ``is_better``.
        policy: Thresholds.
    """
    if verdict is Verdict.INSUFFICIENT or is_unsure(window, length):
        return Action.COLLECT
    if better_method:
        return Action.SWITCH_METHOD
    if depth is not None and is_change(window, verdict, cost, depth, policy.tolerance):
        return Action.INCREASE if depth.tokens > len(window.positions) else Action.DECREASE
    if verdict in _BAD and is_above(crossover, window):
        return Action.LIMIT_BATCH
    if verdict is Verdict.HARMFUL:
        return Action.DISABLE
    return _otherwise(window, verdict, depth, policy)


def _otherwise(window: Window, verdict: Verdict, depth: Depth | None, policy: DepthPolicy) -> Action:
    """Keep the present depth if the cost is known; decrease to 0 if no depth pays."""
    if depth is None:
        return _by_last_position(window, verdict, policy)
    return Action.KEEP if depth.tokens else Action.DECREASE


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

    It must be significantly faster by more than ``tolerance``. With a harmful verdict any number that pays
    is worth it: docs/decisions/0008-advice-to-change.md. No speculation is not another number of tokens.
    """
    if depth is None or cost is None or depth.tokens in (0, len(window.positions)):
        return False
    return verdict is Verdict.HARMFUL or is_faster(window, cost, depth, tolerance)


def is_better(other: Estimate, this: Estimate) -> bool:
    """Return whether another method's speed-up is above 1 and significantly higher (95 %) than this one's."""
    return other.lower > max(this.upper, 1.0)


def is_above(crossover: float | None, window: Window) -> bool:
    """Return whether more requests run than speculation pays for."""
    running = drafting_requests(window)
    return crossover is not None and running is not None and running > crossover


def _fewer(now: int) -> Action:
    """Advise fewer tokens, but not none: the data do not suffice for that."""
    return Action.DECREASE if now > 1 else Action.COLLECT


def _by_last_position(window: Window, verdict: Verdict, policy: DepthPolicy) -> Action:
    """Advise by the acceptance of the last position; drafts that end before it do not count."""
    if not window.positions or not tells_positions(window):
        return Action.KEEP
    tokens, accepted = len(window.positions), window.positions[-1]
    surviving = ratio(accepted, window[Counter.DRAFTS])
    if surviving is not None and surviving > policy.increase_above and verdict is not Verdict.POOR:
        return Action.INCREASE
    acceptance = ratio(accepted, least_drafted(window, tokens - 1))
    return _fewer(tokens) if acceptance is not None and acceptance < policy.decrease_below else Action.KEEP
