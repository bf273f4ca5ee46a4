"""One possible cost of drafting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepCost:
    """One possible cost of drafting, in plain decode steps of the target model."""

    draft_cost_ratio: float
    """c: one more draft token, drafted and verified."""
    fixed_cost_ratio: float
    """c0: a step that drafts, independent of its draft tokens."""
    fixed_in_every_step: bool = False
    """True if steps without a draft pay c0 too."""
