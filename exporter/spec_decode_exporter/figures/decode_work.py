"""Speed-up formulas: the work of decode steps in plain decode steps of the target model.

S decode steps, D drafts, T draft tokens, A accepted tokens, G generation tokens, F first tokens. c is the
cost of one more draft token, c0 that of a step that drafts, both in plain decode steps. A step that drafts t
tokens takes 1 + c0 + c·t plain steps, so the speed-up is

    (G - F) / (S + c0·D + c·T)

with S instead of D if the drafter searches in every step. If S is unknown, a step gave one token and the
accepted ones of its draft: S = G - F - A, too low by the tokens accepted beyond the end of answers. If G or F
is unknown too, every step counts as one that drafts: (D + A) / (D·(1 + c0) + c·T), an upper limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
        """c0: a step that drafts, independent of its draft tokens."""

    @property
    def fixed_in_every_step(self) -> bool:
        """Whether steps without a draft pay c0 too."""


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """Work of a window's decode steps, as far as it decides whether speculation pays."""

    tokens: int
    """Tokens that the steps gave."""
    steps: int
    """At least one."""
    drafts: int
    """At most ``steps``."""
    draft_tokens: int

    def plain_steps(self, cost: DraftCost) -> float:
        """Return the number of plain decode steps that take as long."""
        fixed = cost.fixed_cost_ratio * self.fixed_steps(cost)
        return self.steps + fixed + cost.draft_cost_ratio * self.draft_tokens

    def fixed_steps(self, cost: DraftCost) -> int:
        """Return the number of steps that pay the fixed cost."""
        return self.steps if cost.fixed_in_every_step else self.drafts


def work(window: Window) -> DecodeWork | None:
    """Return the work of the window's steps; None without steps, or if the engine does not count drafts.

    None also if the window counts more first tokens than tokens: the tokens of the steps are then unknown.
    """
    drafts, drafted = window[Counter.DRAFTS], window[Counter.DRAFT_TOKENS]
    accepted = window[Counter.ACCEPTED_TOKENS]
    if drafts is None or drafted is None or accepted is None:
        return None
    tokens, steps = decoded_tokens(window), window[Counter.DECODE_STEPS]
    if tokens is None:
        tokens, steps = drafts + accepted, drafts
    elif steps is None:
        steps = max(tokens - accepted, drafts)
    if not steps or tokens < 0:
        return None
    # A page is rendered while the engine counts on: a short window may have more drafts than steps.
    return DecodeWork(tokens, steps, min(drafts, steps), drafted)


def estimated_speedup_ratio(window: Window, cost: DraftCost) -> float | None:
    """Return the speed-up of decoding by speculation; 1 is no gain, below 1 is slower."""
    done = work(window)
    return None if done is None else done.tokens / done.plain_steps(cost)


def speedup_ceiling_ratio(window: Window) -> float | None:
    """Return the speed-up if drafting cost nothing: tokens per decode step. None without drafts."""
    done = work(window) if window[Counter.DRAFTS] else None
    return None if done is None else done.tokens / done.steps


def break_even_acceptance_ratio(window: Window, cost: DraftCost) -> float | None:
    """Return the acceptance rate above which speculation pays: c + c0·D/T. None without drafts."""
    done = work(window)
    steps = None if done is None else ratio(done.fixed_steps(cost), done.draft_tokens)
    return None if steps is None else cost.draft_cost_ratio + cost.fixed_cost_ratio * steps


def break_even_cost_ratio(window: Window, cost: DraftCost | None) -> float | None:
    """Return the cost of a draft token below which speculation pays: (G - F - S - c0·D)/T.

    It does not depend on c. Without a cost, c0 is taken as 0. None without draft tokens.
    """
    done = work(window)
    if done is None:
        return None
    fixed = 0.0 if cost is None else cost.fixed_cost_ratio * done.fixed_steps(cost)
    return ratio(done.tokens - done.steps - fixed, done.draft_tokens)
