"""Acceptance formulas: the share of draft tokens that survives, and the tokens that a decode step gives.

D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens, S decode steps;
docs/explanation/semantics.md derives the formulas.
"""

from __future__ import annotations

from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


def acceptance_length(accepted_per_draft: float) -> float:
    """Return the tokens that a draft gives: its accepted tokens and the bonus token."""
    return 1 + accepted_per_draft


def mean_acceptance_length(accepted: float | None, drafts: float | None) -> float | None:
    """Return the mean tokens that a draft gives, the bonus token included: 1 + A / D."""
    accepted_per_draft = ratio(accepted, drafts)
    return None if accepted_per_draft is None else acceptance_length(accepted_per_draft)


def draft_acceptance_ratio(window: Window) -> float | None:
    """Return the share of draft tokens that is accepted, A / T."""
    return ratio(window[Counter.ACCEPTED_TOKENS], window[Counter.DRAFT_TOKENS])


def acceptance_length_tokens(window: Window) -> float | None:
    """Return the window's mean acceptance length in tokens."""
    return mean_acceptance_length(window[Counter.ACCEPTED_TOKENS], window[Counter.DRAFTS])


def draft_length_tokens(window: Window) -> float | None:
    """Return the mean tokens of a draft, T / D; n-gram, suffix and adaptive methods draft below K."""
    return ratio(window[Counter.DRAFT_TOKENS], window[Counter.DRAFTS])


def coverage_ratio(window: Window) -> float | None:
    """Return the share of decode steps that had a draft, D / S."""
    return ratio(window[Counter.DRAFTS], window[Counter.DECODE_STEPS])


def tokens_per_step(decoded: float | None, steps: float | None) -> float | None:
    """Return the tokens that a decode step gives, with and without a draft: (G - F) / S.

    None if the page counts more first tokens than tokens, as a torn page can.
    """
    return None if decoded is None or decoded < 0 else ratio(decoded, steps)


def effective_tokens_per_step(window: Window) -> float | None:
    """Return the tokens that a decode step of the window gives."""
    return tokens_per_step(decoded_tokens(window), window[Counter.DECODE_STEPS])


def rejected_tokens(window: Window) -> int | None:
    """Return the draft tokens that the target model rejected, T - A."""
    drafted, accepted = window[Counter.DRAFT_TOKENS], window[Counter.ACCEPTED_TOKENS]
    return None if drafted is None or accepted is None else drafted - accepted
