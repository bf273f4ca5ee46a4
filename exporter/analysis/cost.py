"""What drafting costs: c for each draft token and c0 for each step, in plain decode steps of the target.

c is what one more draft token costs, drafted and verified; c0 is what a step costs more however many
tokens it drafts. A decode step that drafts t tokens takes 1 + c0 + c·t plain steps. docs/semantics.md
says where c comes from and when not to trust it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CostSource(StrEnum):
    """Where a cost is known from, the surest first; the value is the ``source`` label."""

    CONFIGURED = "configured"
    """The configuration says so."""
    MEASURED = "measured"
    """This engine was seen at the same load while it drafted and while it did not."""
    DEFAULT = "default"
    """What the method usually costs, whatever the models: see ``method_costs``."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What speculation costs at one load."""

    draft_cost_ratio: float
    """c: one more draft token, drafted and verified, in plain decode steps."""
    fixed_cost_ratio: float
    """c0: a step that speculates, however many tokens it drafts, in plain decode steps."""
    source: CostSource
    running_requests: float | None
    """The load at which it is known; None where it was said without one."""

    def speaks_for(self, running_requests: float | None) -> bool:
        """Return whether it holds at a load: between half and twice the one at which it is known.

        A cost that was said without a load is taken at its word for all of them.
        """
        known = self.running_requests
        if known is None:
            return True
        return running_requests is not None and known / 2 <= running_requests <= 2 * known
