"""Drops of drafting: sudden drops of the accepted tokens per decode step, since fewer steps have a draft.

An n-gram or suffix drafter that finds nothing to draft counts no drafts, so the acceptance length 1 + A/D
does not tell. The same cumulative sums over decode steps do: A per S in place of A per D.
"""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drop import DropKind
from spec_decode_exporter.monitor.drops.interval import Interval
from spec_decode_exporter.monitor.drops.sudden_drop import SuddenDropDetector

MIN_PARTLY: Final = 0.5
"""Share of the time in which some steps have a draft and some have none, if an unknown method searches.

Other methods draft in every step, or, paused by a schedule or stalled, in none."""


class DraftingDropDetector(SuddenDropDetector):
    """Detects drops of drafting. Its intervals count decode steps in place of drafts."""

    kind = DropKind.DRAFTING

    def __init__(self, policy: DropPolicy) -> None:
        super().__init__(policy)
        self.searches = True
        """True if the method is known to search for text; False if the method is unknown."""

    def _is_drop(self, since: Interval) -> bool:
        """Return whether fewer steps have a draft; drafts that are accepted less are a sudden drop."""
        baseline = self.state.baseline
        if not self.searches and baseline.partly < MIN_PARTLY * baseline.drafts:
            return False
        usual = baseline.drafted / baseline.drafts
        return since.drafted / since.drafts < (1 - self.policy.ratio) * usual
