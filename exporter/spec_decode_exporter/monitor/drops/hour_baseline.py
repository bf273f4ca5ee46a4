"""Baseline by the hour of the day (UTC): drafts and accepted tokens of the days before, in 24 cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.monitor.drops.interval import Amount

HOURS: Final = 24
HOUR_SECONDS: Final = 3600.0
DAY_SECONDS: Final = HOURS * HOUR_SECONDS
MEMORY_DAYS: Final = 3.0
"""Memory of a cell: after weeks the day before has a weight of 1 - exp(-1/3) = 28 %."""
_KEPT: Final = exp(-1 / MEMORY_DAYS)


class _Sums(NamedTuple):
    drafts: float
    accepted: float


class HourCell(NamedTuple):
    """One hour of the day: its newest day, and the weighted sums of the days before that.

    A tuple is a short JSON array: the state file holds 24 for each engine.
    """

    day: Annotated[int, Field(ge=-1, le=10**9)] = -1
    """Newest day with drafts, in days since 1970; -1 without any."""
    drafts: Amount = 0.0
    accepted: Amount = 0.0
    earlier_drafts: Amount = 0.0
    earlier_accepted: Amount = 0.0

    def added(self, day: int, drafts: float, accepted: float) -> HourCell:
        """Return the cell with drafts of a day; a new day adds the one before to the earlier days."""
        if day == self.day:
            return self._replace(drafts=self.drafts + drafts, accepted=self.accepted + accepted)
        earlier_drafts, earlier_accepted = self.before(day)
        return HourCell(day, drafts, accepted, round(earlier_drafts, 1), round(earlier_accepted, 1))

    def before(self, day: int) -> _Sums:
        """Return the sums of the days before ``day``."""
        if self.day == day:
            return _Sums(self.earlier_drafts, self.earlier_accepted)
        return _Sums(_KEPT * self.earlier_drafts + self.drafts, _KEPT * self.earlier_accepted + self.accepted)


@dataclass(slots=True)
class HourBaseline:
    """Acceptance length by the hour of the day."""

    cells: Annotated[list[HourCell], Field(min_length=HOURS, max_length=HOURS)] = field(
        default_factory=lambda: [HourCell()] * HOURS
    )

    def add(self, wall: float, drafts: float, accepted: float) -> None:
        """Add the drafts of an interval around ``wall`` (Unix time)."""
        day, hour = divmod(int(wall // HOUR_SECONDS), HOURS)
        self.cells[hour] = self.cells[hour].added(day, drafts, accepted)

    def length(self, wall: float) -> float | None:
        """Return the acceptance length of the days before at the time of day of ``wall``, in tokens.

        It is interpolated between the middles of two neighbouring hours. None if the hour has no day before.
        """
        place = wall / HOUR_SECONDS
        hour = int(place // 1)
        offset = place - hour - 0.5
        own = self._mean(hour)
        if own is None:
            return None
        neighbour = self._mean(hour + (1 if offset > 0 else -1))
        if neighbour is None:
            return 1 + own
        return 1 + (own + abs(offset) * (neighbour - own))

    def _mean(self, hour: int) -> float | None:
        """Return the accepted tokens per draft of an hour since 1970 on the days before it."""
        day, place = divmod(hour, HOURS)
        drafts, accepted = self.cells[place].before(day)
        return accepted / drafts if drafts > 0 else None
