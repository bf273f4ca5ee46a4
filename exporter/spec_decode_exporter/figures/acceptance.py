"""How much of what is drafted survives, and what a decode step gives.

D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens, S decode steps;
docs/semantics.md derives the formulas.
"""

from __future__ import annotations

from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


def draft_acceptance_ratio(window: Window) -> float | None:
    """Return the share of draft tokens that is accepted, A / T."""
    return ratio(window[Counter.ACCEPTED_TOKENS], window[Counter.DRAFT_TOKENS])


def acceptance_length_tokens(window: Window) -> float | None:
    """Return the mean tokens that a draft gives, the bonus token included: 1 + A / D."""
    accepted = ratio(window[Counter.ACCEPTED_TOKENS], window[Counter.DRAFTS])
    return None if accepted is None else 1 + accepted


def draft_length_tokens(window: Window) -> float | None:
    """Return the mean tokens drafted at a time, T / D; n-gram, suffix and adaptive methods draft below K."""
    return ratio(window[Counter.DRAFT_TOKENS], window[Counter.DRAFTS])


def coverage_ratio(window: Window) -> float | None:
    """Return the share of decode steps that had a draft, D / S."""
    return ratio(window[Counter.DRAFTS], window[Counter.DECODE_STEPS])


def effective_tokens_per_step(window: Window) -> float | None:
    """Return the tokens that a decode step gives, with and without a draft: (G - F) / S.

    None where more first tokens than tokens are counted, as over a moment of a torn page.
    """
    decoded = decoded_tokens(window)
    return None if decoded is None or decoded < 0 else ratio(decoded, window[Counter.DECODE_STEPS])


def rejected_tokens(window: Window) -> int | None:
    """Return the draft tokens that were for nothing, T - A."""
    drafted, accepted = window[Counter.DRAFT_TOKENS], window[Counter.ACCEPTED_TOKENS]
    return None if drafted is None or accepted is None else drafted - accepted
