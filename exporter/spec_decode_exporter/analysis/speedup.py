"""Speed-up of speculation: decoded tokens per time of a plain decode step.

S decode steps, D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens; c and c0 as
in ``cost``. Steps that draft t tokens take 1 + c0 + c·t plain steps, so the speed-up is

    (G - F) / (S·(1 + c0) + c·T)

If S is unknown, every step is assumed to draft: (D + A) / (D·(1 + c0) + c·T), an upper limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    cosines,
    grouped,
    independent_variance,
    ratio_estimate,
)
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens, effective_tokens_per_step
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Increments, Window


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """Decode steps of a window, with their tokens and draft tokens."""

    tokens: int
    """Decoded tokens."""
    steps: int
    """At least one."""
    draft_tokens: int

    def plain_steps(self, cost: Cost) -> float:
        """Return the number of plain decode steps that take as long."""
        return self.steps * (1 + cost.fixed_cost_ratio) + cost.draft_cost_ratio * self.draft_tokens


def work(window: Window) -> DecodeWork | None:
    """Return the work of the window's steps; None without steps or counters.

    It is also None if more first tokens than tokens are counted: the decoded tokens are then unknown.
    """
    drafts, drafted = window[Counter.DRAFTS], window[Counter.DRAFT_TOKENS]
    accepted = window[Counter.ACCEPTED_TOKENS]
    if drafts is None or drafted is None or accepted is None:
        return None
    tokens, steps = decoded_tokens(window), window[Counter.DECODE_STEPS]
    if tokens is None or steps is None:
        tokens, steps = drafts + accepted, drafts
    return DecodeWork(tokens, steps, drafted) if steps and tokens >= 0 else None


def estimated_speedup_ratio(window: Window, cost: Cost) -> float | None:
    """Return the speed-up of decoding by speculation; below 1 it is slower."""
    decoded = work(window)
    return None if decoded is None else decoded.tokens / decoded.plain_steps(cost)


def speedup_ceiling_ratio(window: Window) -> float | None:
    """Return the speed-up if drafting cost nothing: effective tokens per step, else the acceptance length.

    None without drafts.
    """
    if not window[Counter.DRAFTS]:
        return None
    return effective_tokens_per_step(window) if _knows_steps(window) else acceptance_length_tokens(window)


def break_even_acceptance_ratio(window: Window, cost: Cost) -> float | None:
    """Return the share of draft tokens that must be accepted for speculation to pay: c + c0·S/T.

    None without drafts.
    """
    decoded = work(window)
    steps = None if decoded is None else ratio(decoded.steps, decoded.draft_tokens)
    return None if steps is None else cost.draft_cost_ratio + cost.fixed_cost_ratio * steps


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


def _knows_steps(window: Window) -> bool:
    return decoded_tokens(window) is not None and window[Counter.DECODE_STEPS] is not None


def _tokens(window: Window, increments: Increments) -> list[int]:
    """Return ``DecodeWork.tokens`` of each increment."""
    column = increments.counter
    if _knows_steps(window):
        pairs = zip(column(Counter.GENERATION_TOKENS), column(Counter.FIRST_TOKENS), strict=True)
        return [generated - first for generated, first in pairs]
    pairs = zip(column(Counter.DRAFTS), column(Counter.ACCEPTED_TOKENS), strict=True)
    return [drafts + accepted for drafts, accepted in pairs]


def _plain_steps(window: Window, increments: Increments, cost: Cost) -> list[float]:
    """Return ``DecodeWork.plain_steps`` of each increment."""
    column = increments.counter
    steps = column(Counter.DECODE_STEPS if _knows_steps(window) else Counter.DRAFTS)
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
    return 1 / longest, max(1 / step, (1 + positions) / longest)


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
