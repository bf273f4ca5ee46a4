"""Changes of K by a schedule, and the finding that K changes back and forth at a boundary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from spec_decode_exporter.findings.finding_context import FindingContext, Values
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import drafts_what_it_finds
from spec_decode_exporter.figures.draft_regimes import MIN_DRAFTS
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import Window

FLIPPING: Final = 0.25
"""Share of the polls in which K changed. Load that moves from one range to another changes it once."""
MIN_POLLS: Final = 20
"""Polls that the share needs."""
DRAFTED_SHARE: Final = 0.95
"""Share of the steps that have a draft if all of them draft: a page is rendered while the engine counts."""
_MIXED: Final = -1
"""K of a poll in which it changed."""


class ScheduleChanges(NamedTuple):
    """Changes of K by a schedule."""

    changes: int
    """Polls in which K changed, or differs from that of the poll before."""
    polls: int
    """Polls with enough decode steps."""

    @property
    def ratio(self) -> float:
        """Share of the polls in which K changed."""
        return self.changes / self.polls


def schedule_changes(window: Window, speculation: Speculation) -> ScheduleChanges | None:
    """Return the changes of K in a window, by a known schedule and a method that drafts in every step.

    None if the schedule has one range, if the method is unknown or searches, or with too few polls.
    """
    method = speculation.method
    if len(speculation.schedule.firsts) < 2 or not method or drafts_what_it_finds(method):  # noqa: PLR2004
        return None
    chosen = list(_tokens_by_poll(window))
    if len(chosen) < MIN_POLLS:
        return None
    changes = sum(later == _MIXED or later != earlier for earlier, later in pairwise(chosen))
    return ScheduleChanges(changes, len(chosen))


def schedule_flips(context: FindingContext) -> Values | None:
    """Condition: the schedule changes K in many polls."""
    schedule, running = context.speculation.schedule, mean(context.window, Gauge.RUNNING_REQUESTS)
    found = schedule_changes(context.window, context.speculation)
    if found is None or running is None or found.ratio < FLIPPING:
        return None
    boundary = min(schedule.firsts[1:], key=lambda first: abs(first - running))
    return {
        "changes": found.changes,
        "polls": found.polls,
        "running": running,
        "boundary": boundary,
        "below": schedule.at(boundary - 1) or 0,
        "above": schedule.at(boundary) or 0,
    }


def _tokens_by_poll(window: Window) -> Iterator[int]:
    """Yield K of each poll with enough steps; ``_MIXED`` if it changed within the poll.

    Every step has K tokens for each request, so T = K·D, and D = S unless K is 0 in some steps.
    """
    columns = (Counter.DECODE_STEPS, Counter.DRAFTS, Counter.DRAFT_TOKENS)
    for steps, drafts, drafted in zip(*map(window.increments.counter, columns), strict=True):
        if steps < MIN_DRAFTS:
            continue
        if not drafts:
            yield 0
        elif drafted % drafts or drafts < DRAFTED_SHARE * steps:
            yield _MIXED
        else:
            yield drafted // drafts
