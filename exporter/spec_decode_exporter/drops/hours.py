"""Acceptance of the days before at the same time of day: length by hour (UTC), in 24 cells, and falls."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, floor
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.core.numbers import Amount, Seconds, UnixTime
from spec_decode_exporter.drops.sums import Sums, Units

HOURS: Final = 24
HOUR_SECONDS: Final = 3600.0
_KEPT: Final = exp(-1 / 3)
"""Weight that a day keeps when the next one comes: after weeks the day before has a weight of 28 %."""


class HourCell(NamedTuple):
    """One hour of the day: its newest day, and the weighted sums of the days before that."""

    day: Annotated[int, Field(ge=-(10**9), le=10**9)] = -1
    """Newest day with units, in days since 1970; -1 without any."""
    units: Units = 0.0
    accepted: Amount = 0.0
    earlier_units: Units = 0.0
    earlier_accepted: Amount = 0.0

    def before(self, day: int) -> tuple[float, float]:
        """Return units and accepted tokens of the days before ``day``."""
        if self.day == day:
            return self.earlier_units, self.earlier_accepted
        return _KEPT * self.earlier_units + self.units, _KEPT * self.earlier_accepted + self.accepted

    def added(self, day: int, units: float, accepted: float) -> HourCell:
        """Return the cell with units of a day; a new day adds the one before to the earlier days."""
        if day == self.day:
            return self._replace(units=self.units + units, accepted=self.accepted + accepted)
        return HourCell(day, units, accepted, *(round(earlier, 1) for earlier in self.before(day)))


HourCells = Annotated[list[HourCell], Field(min_length=HOURS, max_length=HOURS)]


def learn_hour(cells: list[HourCell], interval: Sums) -> None:
    """Add an interval to its hour; one whose Unix time is unknown does not count."""
    if interval.wall:
        day, hour = divmod(int(_middle(interval) // HOUR_SECONDS), HOURS)
        cells[hour] = cells[hour].added(day, interval.units, interval.accepted)


def usual_length(cells: list[HourCell], interval: Sums) -> float | None:
    """Return the length of the days before at this time of day, between the middles of two hours.

    None if the hour has no day before, or the time is unknown.
    """
    if not interval.wall:
        return None
    place = _middle(interval) / HOUR_SECONDS
    hour = floor(place)
    offset = place - hour - 0.5
    own = _mean(cells, hour)
    if own is None:
        return None
    neighbour = _mean(cells, hour + (1 if offset > 0 else -1))
    return 1 + (own if neighbour is None else own + abs(offset) * (neighbour - own))


def _mean(cells: list[HourCell], hour: int) -> float | None:
    """Return the accepted tokens per unit of an hour since 1970 on the days before it."""
    day, place = divmod(hour, HOURS)
    units, accepted = cells[place].before(day)
    return accepted / units if units > 0 else None


def _middle(interval: Sums) -> float:
    return interval.wall - interval.seconds / 2


DAY_SECONDS: Final = 24 * HOUR_SECONDS
FALL_DAYS: Final = 8
"""Days for which a fall is compared: a week, for jobs of one weekday, and one for a late one."""
FALL_TOLERANCE: Final = 1.5 * HOUR_SECONDS
"""Seconds by which a regular fall may come earlier or later than on another day."""
MAX_FALLS: Final = 48


class Fall(NamedTuple):
    """A fall of the length that a detector found."""

    began: UnixTime
    seconds: Seconds
    """Duration as far as it is known."""
    length: Amount
    """Lowest length, in tokens."""

    def lasted(self, drop: Sums) -> Fall:
        """Return the fall with the duration and the length of the drop that it was, now that it is over."""
        return Fall(self.began, round(drop.seconds), min(self.length, round(drop.length, 3)))


Falls = Annotated[list[Fall], Field(max_length=MAX_FALLS)]


def fall_of(since: Sums, age: float) -> Fall:
    """Return the fall that a drop is until now; it began ``age`` seconds ago."""
    return Fall(round(max(since.wall - age, 0.0)), round(since.seconds), round(since.length, 3))


def earlier_fall(falls: Sequence[Fall], fall: Fall, tolerance: float) -> Fall | None:
    """Return the newest fall of an earlier day at the same time of day, and as low within a tolerance."""
    for earlier in reversed(falls):
        days, offset = divmod(fall.began - earlier.began + FALL_TOLERANCE, DAY_SECONDS)
        is_same_time = 1 <= days <= FALL_DAYS and offset <= 2 * FALL_TOLERANCE
        if is_same_time and earlier.length <= fall.length + tolerance:
            return earlier
    return None
