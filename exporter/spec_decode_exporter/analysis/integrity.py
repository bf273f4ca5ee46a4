"""Identities of the counters: Σ a_i = A, a_i ≤ a_{i-1}, a_0 ≤ D, A ≤ T ≤ K·D."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Counts


class Check(StrEnum):
    """Identity that must hold; the value is the ``check`` label."""

    POSITIONS_ADD_UP = "positions_add_up"
    """The accepted tokens of all positions are the accepted tokens: Σ a_i = A."""
    POSITIONS_DECREASE = "positions_decrease"
    """A position is accepted only after the one before it: a_i ≤ a_{i-1} ≤ … ≤ D."""
    ACCEPTED_WITHIN_DRAFTED = "accepted_within_drafted"
    """A ≤ T."""
    DRAFTED_WITHIN_CONFIGURED = "drafted_within_configured"
    """T ≤ K·D."""
    ONE_SERVER = "one_server"
    """Creation times do not alternate, as they do with several servers behind one load balancer.

    It needs several pages: ``window.engine_history`` has it as ``alternates``.
    """


def broken_checks(counts: Counts, tokens: int) -> frozenset[Check]:
    """Return the checks that one page's counters fail; ``tokens`` is K.

    Identities of positions are not checked without positions. T may exceed K·D by the drafts of a torn page:
    if the engine creates its positions late, K is only known that exactly.
    """
    counters, positions = counts.counters, counts.positions
    drafts, drafted = counters[Counter.DRAFTS], counters[Counter.DRAFT_TOKENS]
    accepted = counters[Counter.ACCEPTED_TOKENS]
    survived = (drafts, *positions)
    holds = {
        Check.POSITIONS_ADD_UP: not positions or sum(positions) == accepted,
        Check.POSITIONS_DECREASE: all(later <= earlier for earlier, later in pairwise(survived)),
        Check.ACCEPTED_WITHIN_DRAFTED: accepted <= drafted,
        Check.DRAFTED_WITHIN_CONFIGURED: drafted <= tokens * (drafts + counts.torn),
    }
    return frozenset(check for check, is_met in holds.items() if not is_met)
