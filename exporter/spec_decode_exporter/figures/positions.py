"""Acceptance by draft position: a_i tokens accepted at position i of D drafts.

If a schedule changes the number of draft tokens, only the drafts that had a position count at it: see
``draft_regimes``. A position that no draft had has no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spec_decode_exporter.figures.draft_regimes import DraftRegime, draft_regimes
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


def position_acceptance_ratios(window: Window) -> list[float | None]:
    """Return p_i = a_i / D for every position: the share of drafts with at least i + 1 accepted tokens."""
    regimes = draft_regimes(window)
    if regimes:
        return [ratio(*_survival(regimes, position)) for position in range(len(window.positions))]
    return [ratio(accepted, window[Counter.DRAFTS]) for accepted in window.positions]


def conditional_acceptance_ratios(window: Window) -> list[float | None]:
    """Return q_i = a_i / a_{i-1}, with q_0 = p_0: the acceptance of drafts that reach the position."""
    return [ratio(accepted, reached) for accepted, reached in conditional_counts(window)]


def conditional_counts(window: Window) -> list[tuple[int, int | None]]:
    """Return the accepted tokens of every position, and the drafts that were accepted up to it.

    With drafts shorter than K that have no regimes, some of these drafts ended before the position.
    """
    regimes = draft_regimes(window)
    if not regimes:
        before = (window[Counter.DRAFTS], *window.positions)
        return list(zip(window.positions, before, strict=False))
    return [_conditional(regimes, position) for position in range(len(window.positions))]


def _survival(regimes: Sequence[DraftRegime], position: int) -> tuple[int, int]:
    """Return the accepted tokens and the drafts of the regimes that have a position."""
    having = [regime for regime in regimes if regime.tokens > position]
    return sum(regime.positions[position] for regime in having), sum(regime.drafts for regime in having)


def _conditional(regimes: Sequence[DraftRegime], position: int) -> tuple[int, int]:
    having = [regime for regime in regimes if regime.tokens > position]
    accepted = sum(regime.positions[position] for regime in having)
    return accepted, sum(regime.reached[position] for regime in having)


def drafts_with(window: Window, position: int) -> int | None:
    """Return the drafts that had a position, if a schedule changes K; None if their number is unknown.

    Drafts of increments during which K changed are not included.
    """
    regimes = draft_regimes(window)
    return _survival(regimes, position)[1] if regimes else None


def common_positions(window: Window) -> int:
    """Return the number of positions that every draft has, as far as it is known: at least the first."""
    drafts, drafted, positions = window[Counter.DRAFTS], window[Counter.DRAFT_TOKENS], len(window.positions)
    if drafts is None or drafted is None or drafted >= positions * drafts:
        return positions
    regimes = draft_regimes(window)
    return regimes[0].tokens if regimes else 1


def drafted_up_to(window: Window, tokens: int) -> float | None:
    """Return the mean tokens of the window's drafts if each ended after ``tokens`` at most.

    None if the drafts by length are unknown.
    """
    regimes = draft_regimes(window)
    drafted = sum(regime.drafts * min(regime.tokens, tokens) for regime in regimes)
    return ratio(drafted, sum(regime.drafts for regime in regimes)) if regimes else None


def highest_survival(window: Window, position: int) -> float | None:
    """Return the maximum share of accepted tokens among the drafts that had a position.

    By the minimum number of such drafts, unless it is known.
    """
    regimes = draft_regimes(window)
    if regimes:
        return ratio(*_survival(regimes, position))
    return ratio(window.positions[position], least_drafted(window, position))


def tells_positions(window: Window) -> bool:
    """Return whether the engine exports its positions; a window has K of them in any case."""
    return any(window.positions) or window[Counter.ACCEPTED_TOKENS] == 0


def least_drafted(window: Window, position: int) -> float:
    """Return the minimum number of drafts with a token at a position: (T - i·D) / (K - i).

    Drafts may be shorter than K. One that ends before position i lacks all K - i tokens from there on, so
    no more than (K·D - T) / (K - i) drafts do.
    """
    drafts, drafted = window[Counter.DRAFTS] or 0, window[Counter.DRAFT_TOKENS] or 0
    return min(max((drafted - position * drafts) / (len(window.positions) - position), 0.0), drafts)


def decay_ratio(window: Window) -> float | None:
    """Return the pooled decay (a_1 + … + a_{K-1}) / (a_0 + … + a_{K-2}); 1 is no decay.

    None for K = 1, which has no decay.
    """
    positions, regimes = window.positions, draft_regimes(window)
    if regimes:
        later = sum(sum(regime.positions[1:]) for regime in regimes)
        return ratio(later, sum(sum(regime.positions[:-1]) for regime in regimes))
    return ratio(sum(positions[1:]), sum(positions[:-1])) if len(positions) > 1 else None


def accepted_length_ratios(window: Window) -> list[float | None]:
    """Return P(accepted length = j) for j = 0 … K: p_{j-1} - p_j with p_{-1} = 1 and p_K = 0."""
    drafts = window[Counter.DRAFTS]
    if drafts is None or not window.positions:
        return []
    reached = (drafts, *window.positions, 0)
    return [ratio(here - further, drafts) for here, further in pairwise(reached)]
