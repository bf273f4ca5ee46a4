"""Speed-up formulas: the work of decode steps in plain decode steps of the target model.

S decode steps, D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens. c is the
cost of one more draft token, c0 that of a step that speculates, both in plain decode steps. Steps that draft
t tokens take 1 + c0 + c·t plain steps, so the speed-up is

    (G - F) / (S·(1 + c0) + c·T)

If S is unknown, every step counts as one that drafts: (D + A) / (D·(1 + c0) + c·T), an upper limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spec_decode_exporter.figures.acceptance import acceptance_length_tokens, effective_tokens_per_step
from spec_decode_exporter.figures.latency import decoded_tokens
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


class DraftCost(Protocol):
    """Cost of speculation in plain decode steps of the target model."""

    @property
    def draft_cost_ratio(self) -> float:
        """c: one more draft token, drafted and verified."""

    @property
    def fixed_cost_ratio(self) -> float:
        """c0: a step that speculates, however many tokens it drafts."""


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """Work of a window's decode steps, as far as it decides whether speculation pays."""

    tokens: int
    """Tokens that the steps gave."""
    steps: int
    """At least one."""
    draft_tokens: int

    def plain_steps(self, cost: DraftCost) -> float:
        """Return the number of plain decode steps that take as long."""
        return self.steps * (1 + cost.fixed_cost_ratio) + cost.draft_cost_ratio * self.draft_tokens


def knows_steps(window: Window) -> bool:
    """Return whether the window has decode steps and the tokens that they gave."""
    return decoded_tokens(window) is not None and window[Counter.DECODE_STEPS] is not None


def work(window: Window) -> DecodeWork | None:
    """Return the work of the window's steps; None without steps, or if the engine does not count them.

    None also if the window counts more first tokens than tokens: the tokens of the steps are then unknown.
    """
    drafts, drafted = window[Counter.DRAFTS], window[Counter.DRAFT_TOKENS]
    accepted = window[Counter.ACCEPTED_TOKENS]
    if drafts is None or drafted is None or accepted is None:
        return None
    tokens, steps = decoded_tokens(window), window[Counter.DECODE_STEPS]
    if tokens is None or steps is None:
        tokens, steps = drafts + accepted, drafts
    return DecodeWork(tokens, steps, drafted) if steps and tokens >= 0 else None


def estimated_speedup_ratio(window: Window, cost: DraftCost) -> float | None:
    """Return the speed-up of decoding by speculation; 1 is no gain, below 1 is slower."""
    done = work(window)
    return None if done is None else done.tokens / done.plain_steps(cost)


def speedup_ceiling_ratio(window: Window) -> float | None:
    """Return the speed-up if drafting cost nothing: effective tokens per step, else the acceptance length.

    None without drafts.
    """
    if not window[Counter.DRAFTS]:
        return None
    return effective_tokens_per_step(window) if knows_steps(window) else acceptance_length_tokens(window)


def break_even_acceptance_ratio(window: Window, cost: DraftCost) -> float | None:
    """Return the acceptance rate above which speculation pays: c + c0·S/T. None without drafts."""
    done = work(window)
    steps = None if done is None else ratio(done.steps, done.draft_tokens)
    return None if steps is None else cost.draft_cost_ratio + cost.fixed_cost_ratio * steps
