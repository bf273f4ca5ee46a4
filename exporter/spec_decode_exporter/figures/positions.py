"""Acceptance by draft position: a_i tokens accepted at position i of D drafts."""

from __future__ import annotations

from itertools import pairwise

from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


def position_acceptance_ratios(window: Window) -> list[float | None]:
    """Return p_i = a_i / D for every position: the share of drafts with at least i + 1 accepted tokens."""
    return [ratio(accepted, window[Counter.DRAFTS]) for accepted in window.positions]


def conditional_acceptance_ratios(window: Window) -> list[float | None]:
    """Return q_i = a_i / a_{i-1}, with q_0 = p_0: the acceptance of drafts that reach the position."""
    before = (window[Counter.DRAFTS], *window.positions)
    return [ratio(accepted, reached) for accepted, reached in zip(window.positions, before, strict=False)]


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


def pooled_acceptance_ratio(window: Window) -> float | None:
    """Return the conditional acceptance pooled over all positions: A / min(T, D + A - a_{K-1}).

    The share of accepted tokens among those whose predecessors were all accepted. Unlike the acceptance rate
    it does not fall with K. A draft is one trial, and one more after each accepted token except the K-th. If
    drafts are shorter than K, the formula counts trials that did not happen, but at most T.
    """
    drafts, drafted = window[Counter.DRAFTS], window[Counter.DRAFT_TOKENS]
    accepted = window[Counter.ACCEPTED_TOKENS]
    if drafts is None or drafted is None or accepted is None or not window.positions:
        return None
    if not tells_positions(window):
        return None
    return ratio(accepted, min(drafted, drafts + accepted - window.positions[-1]))


def decay_ratio(window: Window) -> float | None:
    """Return the pooled decay (a_1 + … + a_{K-1}) / (a_0 + … + a_{K-2}); 1 is no decay.

    None for K = 1, which has no decay.
    """
    positions = window.positions
    return ratio(sum(positions[1:]), sum(positions[:-1])) if len(positions) > 1 else None


def accepted_length_ratios(window: Window) -> list[float | None]:
    """Return P(accepted length = j) for j = 0 … K: p_{j-1} - p_j with p_{-1} = 1 and p_K = 0."""
    drafts = window[Counter.DRAFTS]
    if drafts is None or not window.positions:
        return []
    reached = (drafts, *window.positions, 0)
    return [ratio(here - further, drafts) for here, further in pairwise(reached)]
