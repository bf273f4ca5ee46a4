"""Bounds of the estimated speed-up, from the spread of the window's increments: see ``decode_work``."""

from __future__ import annotations

from math import inf, sqrt

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    cosines,
    grouped,
    independent_variance,
    ratio_estimate,
)
from spec_decode_exporter.figures.acceptance import acceptance_length
from spec_decode_exporter.figures.decode_work import DecodeWork, knows_steps, work
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Increments, Window


def speedup_estimate(window: Window, cost: Cost) -> Estimate | None:
    """Return the speed-up with its bounds; None if the window has none."""
    decoded = work(window)
    if decoded is None:
        return None
    increments = grouped(window)
    lowest, highest = _possible(len(window.positions), cost)
    return ratio_estimate(
        _tokens(window, increments),
        _plain_steps(window, increments, cost),
        cosines(window),
        min_error=_min_error(window, decoded, cost),
        lowest=lowest,
        highest=highest,
    )


def tokens_per_step_estimate(window: Window) -> Estimate | None:
    """Return the tokens per decode step with their bounds; None if steps are unknown."""
    if not knows_steps(window):
        return None
    increments = grouped(window)
    return ratio_estimate(
        _tokens(window, increments),
        increments.counter(Counter.DECODE_STEPS),
        cosines(window),
        lowest=0.0,
        highest=1.0 + len(window.positions) if window.positions else inf,
    )


def _tokens(window: Window, increments: Increments) -> list[int]:
    """Return ``DecodeWork.tokens`` of each increment."""
    column = increments.counter
    if knows_steps(window):
        pairs = zip(column(Counter.GENERATION_TOKENS), column(Counter.FIRST_TOKENS), strict=True)
        return [generated - first for generated, first in pairs]
    pairs = zip(column(Counter.DRAFTS), column(Counter.ACCEPTED_TOKENS), strict=True)
    return [drafts + accepted for drafts, accepted in pairs]


def _plain_steps(window: Window, increments: Increments, cost: Cost) -> list[float]:
    """Return ``DecodeWork.plain_steps`` of each increment."""
    column = increments.counter
    steps = column(Counter.DECODE_STEPS if knows_steps(window) else Counter.DRAFTS)
    step, token = 1 + cost.fixed_cost_ratio, cost.draft_cost_ratio
    return [
        step * count + token * drafted
        for count, drafted in zip(steps, column(Counter.DRAFT_TOKENS), strict=True)
    ]


def _possible(positions: int, cost: Cost) -> tuple[float, float]:
    """Return the minimum and the maximum speed-up of a step that drafts up to K tokens."""
    if not positions:
        return 0.0, inf
    step = 1 + cost.fixed_cost_ratio
    longest = step + cost.draft_cost_ratio * positions
    return 1 / longest, max(1 / step, acceptance_length(positions) / longest)


def _min_error(window: Window, decoded: DecodeWork, cost: Cost) -> float:
    """Return the minimum standard error of the speed-up, that of independent drafts.

    It is that of a - m·c·t, summed over drafts of t tokens of which a are accepted, with m the speed-up. The
    counters yield the variance of a. That of t is at most t̄·(K - t̄): see ``ratio_bounds`` for A/T.
    """
    variance, drafts = independent_variance(window), window[Counter.DRAFTS]
    if variance is None or not drafts:
        return 0.0
    plain, length = decoded.plain_steps(cost), decoded.draft_tokens / drafts
    spread = sqrt(length * max(0.0, len(window.positions) - length))
    certain = sqrt(variance) - decoded.tokens / plain * cost.draft_cost_ratio * spread
    return max(0.0, certain) * sqrt(drafts) / plain
