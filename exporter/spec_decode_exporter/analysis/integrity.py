"""Whether the counters agree with one another: Σ a_i = A, a_i ≤ a_{i-1}, a_0 ≤ D, A ≤ T ≤ K·D."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Counts


class Check(StrEnum):
    """An identity that must hold; the value is the ``check`` label."""

    POSITIONS_ADD_UP = "positions_add_up"
    """The accepted tokens of all positions are the accepted tokens: Σ a_i = A."""
    POSITIONS_DECREASE = "positions_decrease"
    """A position is only accepted after the one before it: a_i ≤ a_{i-1} ≤ … ≤ D."""
    ACCEPTED_WITHIN_DRAFTED = "accepted_within_drafted"
    """A ≤ T."""
    DRAFTED_WITHIN_CONFIGURED = "drafted_within_configured"
    """T ≤ K·D."""
    ONE_SERVER = "one_server"
    """Creation times do not alternate, as they do when a load balancer hides several servers."""


def broken_checks(counts: Counts, tokens: int) -> frozenset[Check]:
    """Return the checks that one page's counters fail; ``tokens`` is K.

    An engine that shows no positions is not held to what it does not say. T may be ahead of K·D by what
    a page can be torn: K itself is only known to that, where the engine creates its positions late.
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
    return frozenset(check for check, held in holds.items() if not held)
