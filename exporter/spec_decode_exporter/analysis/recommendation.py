"""What to do, in one word."""

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
    """What to do about speculation; the value is the ``action`` label."""

    KEEP = "keep"
    INCREASE = "increase"
    """Draft more tokens at a time."""
    DECREASE = "decrease"
    """Draft fewer tokens at a time; none where 0 are recommended."""
    DISABLE = "disable"
    """Do not speculate: no number of draft tokens is known to pay."""
    LIMIT_BATCH = "limit_batch"
    """Speculate only while few requests run: it pays at lower load and not at this one."""
    SWITCH_METHOD = "switch_method"
    """Draft as another engine does that serves the same model."""
    COLLECT = "collect"
    """No advice: too little is known. Also of an engine that is disabled, idle, stalled or unreachable."""


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
    """Return what to do, judged by the longest window. What comes first in this order outweighs the rest.

    An engine that does not draft has no drafts to judge by, so its verdict is insufficient.

    Args:
        window: The longest window.
        verdict: What it is worth. It is harmful only with bounds, and where the cost is sure or does not
            matter; so that is enough to disable, where no depth pays.
        length: Bounds of the acceptance length; None where the window has none.
        cost: What drafting costs; None where that is unknown.
        depth: The number of tokens that is recommended at this cost.
        crossover: The running requests from which on speculation stops paying; None where unknown.
        better_method: Another method that serves the same model is faster: see ``is_better``.
        policy: The thresholds.
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
    """Stay at the present depth, as far as the cost is known; where none pays, no tokens are fewer."""
    if depth is None:
        return _by_last_position(window, verdict, policy)
    return Action.KEEP if depth.tokens else Action.DECREASE


def is_unsure(window: Window, length: Estimate | None) -> bool:
    """Return whether a window has no bounds although the engine tells of its requests: too few passed.

    Other requests may well be different, and advice would be about these. An engine that does not count
    requests never has bounds; its advice goes by the figures alone, and is never to disable.
    """
    return length is None and passing_requests(window) is not None


def is_change(
    window: Window, verdict: Verdict, cost: Cost | None, depth: Depth | None, tolerance: float
) -> bool:
    """Return whether the recommended number of tokens is worth a change from the present one.

    It is where it should be faster by more than ``tolerance``, beyond doubt. From what is harmful any number
    is that pays: docs/decisions/0008-advice-to-change.md. No speculation is not another number of tokens.
    """
    if depth is None or cost is None or depth.tokens in (0, len(window.positions)):
        return False
    return verdict is Verdict.HARMFUL or is_faster(window, cost, depth, tolerance)


def is_better(other: Estimate, this: Estimate) -> bool:
    """Return whether the speed-up of another method is beyond doubt higher than this one's, and a gain."""
    return other.lower > max(this.upper, 1.0)


def is_above(crossover: float | None, window: Window) -> bool:
    """Return whether more requests run than those at which speculation still pays."""
    running = drafting_requests(window)
    return crossover is not None and running is not None and running > crossover


def _fewer(now: int) -> Action:
    """Advise fewer tokens. Fewer than one are none, and too little is known to advise that."""
    return Action.DECREASE if now > 1 else Action.COLLECT


def _by_last_position(window: Window, verdict: Verdict, policy: DepthPolicy) -> Action:
    """Advise by how often the last position is accepted; where drafts end before it, it is not wasted."""
    if not window.positions or not tells_positions(window):
        return Action.KEEP
    tokens, accepted = len(window.positions), window.positions[-1]
    surviving = ratio(accepted, window[Counter.DRAFTS])
    if surviving is not None and surviving > policy.increase_above and verdict is not Verdict.POOR:
        return Action.INCREASE
    worth = ratio(accepted, least_drafted(window, tokens - 1))
    return _fewer(tokens) if worth is not None and worth < policy.decrease_below else Action.KEEP
