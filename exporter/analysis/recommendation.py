"""What to do, in one word."""

from __future__ import annotations

from enum import StrEnum

from exporter.analysis.depth import Depth
from exporter.analysis.estimate import Estimate
from exporter.analysis.load import mean
from exporter.analysis.positions import least_drafted, tells_positions
from exporter.analysis.ratio import ratio
from exporter.analysis.verdict import Verdict
from exporter.config.policy import DepthPolicy
from exporter.scrape.engines import Counter, Gauge
from exporter.window.ledger import Window


class Action(StrEnum):
    """What to do about speculation; the value is the ``action`` label."""

    KEEP = "keep"
    INCREASE = "increase"
    """Draft more tokens at a time."""
    DECREASE = "decrease"
    """Draft fewer tokens at a time."""
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
    depth: Depth | None,
    crossover: float | None,
    better_method: bool,
    policy: DepthPolicy,
) -> Action:
    """Return what to do, judged by the longest window. What comes first in this order outweighs the rest.

    An engine that does not draft has no drafts to judge by, so its verdict is insufficient.

    Args:
        window: The longest window.
        verdict: What it is worth. It is harmful only with bounds, and with a cost that is no default and
            holds at the present load; so that is enough to disable, where no depth pays.
        depth: The number of tokens that is recommended, by what drafting costs; None where that is unknown.
        crossover: The running requests from which on speculation stops paying; None where unknown.
        better_method: Another method that serves the same model is faster: see ``is_better``.
        policy: The thresholds.
    """
    if verdict is Verdict.INSUFFICIENT:
        return Action.COLLECT
    if better_method:
        return Action.SWITCH_METHOD
    if verdict in _BAD and is_above(crossover, window):
        return Action.LIMIT_BATCH
    if verdict is Verdict.HARMFUL and not _another_pays(depth, window):
        return Action.DISABLE
    if depth is not None:
        return _towards(depth.tokens, window)
    return _by_last_position(window, verdict, policy)


def is_better(other: Estimate, this: Estimate) -> bool:
    """Return whether the speed-up of another method is beyond doubt higher than this one's, and a gain."""
    return other.lower > max(this.upper, 1.0)


def is_above(crossover: float | None, window: Window) -> bool:
    """Return whether more requests run than those at which speculation still pays."""
    running = mean(window, Gauge.RUNNING_REQUESTS)
    return crossover is not None and running is not None and running > crossover


def _another_pays(depth: Depth | None, window: Window) -> bool:
    """Return whether another depth pays than the present one, of which it is known that it does not."""
    return depth is not None and depth.tokens not in (0, len(window.positions))


def _towards(tokens: int, window: Window) -> Action:
    now = len(window.positions)
    if tokens > now:
        return Action.INCREASE
    return _fewer(now) if tokens < now else Action.KEEP


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
