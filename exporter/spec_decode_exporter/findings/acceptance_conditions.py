"""Conditions of findings about acceptance. Each returns the finding's numbers, or None."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spec_decode_exporter.drops.drop import DropKind
from spec_decode_exporter.findings.finding_context import FindingContext, Values, above, below, drafting
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    MIN_BOUND_REQUESTS,
    effective_requests,
    passing_requests,
)
from spec_decode_exporter.analysis.verdict import MIN_VERDICT_REQUESTS, NOT_PAYING, half_width
from spec_decode_exporter.figures.acceptance import draft_acceptance_ratio
from spec_decode_exporter.figures.positions import (
    conditional_counts,
    drafts_with,
    highest_survival,
    least_drafted,
    tells_positions,
)
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter

DEAD = 0.05
"""Acceptance at the first position below which a drafter does not work, for SpecDecodeDrafterDead too.

Most reports of broken drafters show 0.01 to 0.02.
"""
HIGH_FIRST_POSITION = 0.90
LOW_RATE = 0.40
HIGH_RATE = 0.60
"""Common rules of thumb, independent of the method and its cost."""


def accepting(context: FindingContext) -> bool:
    """Precondition: any draft token is accepted. Otherwise only ``drafter_dead`` is about acceptance."""
    return drafting(context) and context.window[Counter.ACCEPTED_TOKENS] != 0


def dropped(kind: DropKind) -> Callable[[FindingContext], Values | None]:
    """Return the condition of a drop of a kind."""

    def condition(context: FindingContext) -> Values | None:
        baseline, length = context.drops.baseline_length, context.recent_length
        if not context.drops.dropped.get(kind) or baseline is None or length is None:
            return None
        return {"baseline": baseline, "length": length}

    return condition


def dropped_at(kind: DropKind) -> Callable[[FindingContext], Values | None]:
    """Return the condition of a drop of a kind that began at a moment."""

    def condition(context: FindingContext) -> Values | None:
        drop = context.drops.live.get(kind)
        if drop is None:
            return None
        return {
            "baseline": drop.baseline_length,
            "length": drop.length,
            "began": context.wall - drop.age,
            "age": drop.age,
        }

    return condition


def too_few_drafts(context: FindingContext) -> Values | None:
    """Condition: too few drafts for a verdict."""
    required = context.policy.min_drafts
    return {"drafts": context.drafts, "threshold": required} if 0 < context.drafts < required else None


def too_unsure(context: FindingContext) -> Values | None:
    """Condition: bounds too wide for a verdict."""
    bounds = context.length
    if bounds is None or half_width(bounds) <= context.policy.max_half_width * bounds.value:
        return None
    return {"length": bounds.value, "lower": bounds.lower, "upper": bounds.upper}


def too_few_requests(context: FindingContext) -> Values | None:
    """Condition: too few requests pass through the window for bounds."""
    requests, counted = passing_requests(context.window), effective_requests(context.window)
    if context.length is not None or requests is None or counted is None or counted >= MIN_BOUND_REQUESTS:
        return None
    return {
        "requests": requests,
        "counted": counted,
        "threshold": MIN_BOUND_REQUESTS,
        "least": MIN_VERDICT_REQUESTS,
    }


def drafter_is_dead(context: FindingContext) -> Values | None:
    """Condition: almost no first draft token is accepted.

    Without counted positions, all accepted tokens per draft are compared: the first position has fewer.
    """
    first = context.survival(0)
    share = ratio(context.window[Counter.ACCEPTED_TOKENS], context.drafts) if first is None else first
    values = below("acceptance", share, DEAD)
    return values and {**values, "drafts": context.drafts}


def repetition(context: FindingContext) -> Values | None:
    """Condition: almost every first position is accepted, over a whole window."""
    first, threshold = context.survival(0), context.policy.findings.repetition_first_position
    if first is None or first < threshold or not context.is_whole:
        return None
    return {"acceptance": first, "threshold": threshold, "seconds": context.window.seconds}


def cliff(context: FindingContext) -> Values | None:
    """Condition: a position's conditional acceptance is far below that of the position before."""
    counts = conditional_counts(context.window)
    cliffs = (_cliff_at(context, position, counts) for position in range(1, context.tokens))
    return next((values for values in cliffs if values), None)


def _cliff_at(
    context: FindingContext, position: int, counts: Sequence[tuple[int, int | None]]
) -> Values | None:
    """Compare q_i with q_{i-1} if enough drafts reached position i.

    A draft may end before position i. As many drafts as can have ended there are no evidence, unless the
    drafts by length are known. ``counts`` is the result of ``conditional_counts``.
    """
    here, before = counts[position][0], counts[position][1] or 0
    has_known_lengths = drafts_with(context.window, position) is not None
    ended = 0 if has_known_lengths else context.drafts - least_drafted(context.window, position)
    tried = before - ended
    before_ratio, threshold = ratio(*counts[position - 1]), context.policy.findings.cliff_ratio
    too_few = before < context.policy.min_drafts
    if too_few or before_ratio is None or here >= threshold * before_ratio * tried:
        return None
    return {
        "position": position,
        "acceptance": here / before,
        "position_before": position - 1,
        "acceptance_before": before_ratio,
    }


def low_first_position(context: FindingContext) -> Values | None:
    """Condition: the first position is accepted too rarely."""
    return below("acceptance", context.survival(0), context.policy.findings.low_first_position)


def high_first_position(context: FindingContext) -> Values | None:
    """Condition: the first position is accepted as often as operators expect."""
    return above("acceptance", context.survival(0), HIGH_FIRST_POSITION)


def low_rate(context: FindingContext) -> Values | None:
    """Condition: a poor acceptance rate by the common rule of thumb."""
    values = below("rate", draft_acceptance_ratio(context.window), LOW_RATE)
    return values and {**values, "tokens": context.tokens}


def high_rate(context: FindingContext) -> Values | None:
    """Condition: a good acceptance rate by the common rule of thumb."""
    values = above("rate", draft_acceptance_ratio(context.window), HIGH_RATE)
    return values and {**values, "tokens": context.tokens}


def wasted_last_position(context: FindingContext) -> Values | None:
    """Condition: the last position is accepted too rarely, of the drafts that certainly reached it."""
    tokens = context.tokens
    if tokens < 2 or not tells_positions(context.window):  # noqa: PLR2004  one token has no other to keep
        return None
    if context.lacks(-1):
        return None
    acceptance = highest_survival(context.window, tokens - 1)
    values = below("acceptance", acceptance, context.policy.findings.wasted_last_position)
    return values and {**values, "tokens": tokens}


def room_for_longer_draft(context: FindingContext) -> Values | None:
    """Condition: the last position is accepted often, and the cost does not rule out another token."""
    last, tokens = context.survival(-1), context.tokens
    depth, bad = context.depth, context.verdict in NOT_PAYING
    is_open = not bad if depth is None else depth.tokens > tokens
    values = above("acceptance", last, context.policy.depth.increase_above) if is_open else None
    return values and {**values, "tokens": tokens}
