"""Points of the charts of a history, 1000 wide: they stretch, so their labels are HTML beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil, floor, log2
from typing import Final, NamedTuple

from spec_decode_exporter.history.history_result import (
    SPECULATING,
    by_day_and_hour,
    mean_speedup,
    positions,
    summary,
)
from spec_decode_exporter.history.history_slots import SlotOutcome, SlotResult

WIDTH: Final = 1000
HEIGHT: Final = 200
MAX_DAYS: Final = 31
"""Maximum days of a heat map: the newest."""
MAX_POINTS: Final = 700
"""Maximum points of a line: more than pixels are not visible."""
MAX_POSITIONS: Final = 8
MAX_TOP: Final = 8.0
"""Greatest speed-up of a scale; higher bounds are cut off."""
_MARGIN: Final = 0.25
"""Doublings between the points of the load chart and its edges."""
_DAY: Final = 86400.0
_HOURS: Final = 24

Slots = Sequence[SlotResult]


class TimeSpan(NamedTuple):
    """Time axis of the charts, in Unix time."""

    begin: float
    end: float

    def x(self, time: float) -> float:
        """Return the horizontal place of a Unix time."""
        return WIDTH * (min(max(time, self.begin), self.end) - self.begin) / (self.end - self.begin)

    def labels(self) -> list[str]:
        """Return five labels at equal distances; they name the day, or the time of a short span."""
        form = "%d %b" if self.end - self.begin > 4 * _DAY else "%d %b %H:%M"
        times = (self.begin + (self.end - self.begin) * step / 4 for step in range(5))
        return [f"{datetime.fromtimestamp(time, UTC):{form}}" for time in times]


class ChartPoint(NamedTuple):
    """Speed-up with its bounds, from one horizontal place to another."""

    x: float
    end: float
    value: float
    lower: float
    upper: float


class Cell(NamedTuple):
    """Hour of a heat map."""

    kind: str
    """Class of the style sheet."""
    text: str
    is_unclear: bool


def y(value: float, top: float) -> str:
    """Return the vertical place of a value on a scale from 0 to ``top``."""
    return f"{HEIGHT * (1 - min(max(value, 0.0), top) / top):.1f}"


def top_of(points: Iterable[ChartPoint]) -> float:
    """Return the top of the scale: above the highest bound, at most ``MAX_TOP``."""
    return min(max(2.0, ceil(2 * max(point.upper for point in points)) / 2), MAX_TOP)


def scale(top: float) -> list[str]:
    """Return the labels of a scale, from its top to 0."""
    return [f"{top * share:.2f}" for share in (1.0, 0.5, 0.0)]


def over_time(slots: Slots, span: TimeSpan) -> list[ChartPoint]:
    """Return the mean speed-up with its bounds at ``MAX_POINTS`` times at most, over all engines."""
    known = sorted((slot for slot in slots if slot.outcome in SPECULATING), key=lambda slot: slot.begin)
    if not known:
        return []
    longest = max(slot.end - slot.begin for slot in known)
    width = max((known[-1].end - known[0].begin) / MAX_POINTS, longest, 1.0)
    groups: dict[int, list[SlotResult]] = {}
    for slot in known:
        groups.setdefault(int((slot.begin + slot.end) / 2 // width), []).append(slot)
    found = ((each[0].begin, max(slot.end for slot in each), mean_speedup(each)) for each in groups.values())
    return [
        ChartPoint(span.x(begin), max(span.x(end), span.x(begin) + 1), its.value, its.lower, its.upper)
        for begin, end, its in found
        if its is not None
    ]


def by_load(slots: Slots) -> tuple[list[ChartPoint], list[str]]:
    """Return the speed-up of each slot by the logarithm of its load, and the labels of the axis."""
    known = [
        (log2(max(slot.running_requests, 1.0)), slot.speedup)
        for slot in slots
        if slot.speedup and slot.running_requests
    ]
    if not known:
        return [], []
    low = floor(min(load for load, _ in known) - _MARGIN)
    high = ceil(max(load for load, _ in known) + _MARGIN)
    places = (
        (WIDTH * (load - low) / (high - low), its) for load, its in known[:: ceil(len(known) / MAX_POINTS)]
    )
    points = [ChartPoint(x, x, its.value, its.lower, its.upper) for x, its in places]
    return points, [f"{2.0**each:,.3g}" for each in range(low, high + 1)]


def position_lines(slots: Slots, span: TimeSpan) -> list[str]:
    """Return the line of each position's acceptance over time, interrupted between two values of K."""
    drafting = [slot for slot in slots if slot.drafts and slot.positions]
    size = ceil(len(drafting) / MAX_POINTS * 4)
    groups = [drafting[begin : begin + size] for begin in range(0, len(drafting), size or 1)]
    rows = [(span.x((each[0].begin + each[-1].end) / 2), each[0].era, positions(each)) for each in groups]
    number = min(max((len(row) for *_, row in rows), default=0), MAX_POSITIONS)
    return [
        _line([(x, era, row[place]) for x, era, row in rows if place < len(row)]) for place in range(number)
    ]


def heat_map(slots: Slots) -> dict[str, list[Cell | None]]:
    """Return the speed-up of each hour (UTC) by day; empty without a speed-up."""
    groups = by_day_and_hour(slots)
    cells = {key: _cell(members) for key, members in groups.items()}
    if not any(cells.values()):
        return {}
    days = sorted({day for day, _ in groups})[-MAX_DAYS:]
    return {day[5:]: [cells.get((day, hour)) for hour in range(_HOURS)] for day in days}


def _line(points: Sequence[tuple[float, int, float]]) -> str:
    pairs = pairwise([(0.0, -1, 0.0), *points])
    drawn = (f"{'L' if old[1] == era else 'M'}{x:.1f} {y(value, 1.0)}" for old, (x, era, value) in pairs)
    return "".join(drawn) + ("h0" if len(points) == 1 else "")


def _cell(slots: Slots) -> Cell | None:
    speedup = mean_speedup(slots)
    if speedup is None:
        return None
    mostly_unclear = (summary(slots).share_of(SlotOutcome.UNCLEAR) or 0.0) > 1 / 2
    is_unclear = mostly_unclear or speedup.lower < 1 <= speedup.upper
    text = f"{speedup.value:.2f} ({speedup.lower:.2f} to {speedup.upper:.2f})"
    return Cell(_color(speedup.value), text, is_unclear)


def _color(speedup: float) -> str:
    """Return the class of a speed-up: four for slower, down to a half, and four for faster, up to two."""
    place = round(4 * min(max(log2(max(speedup, 1e-3)), -1.0), 1.0))
    return f"faster{place}" if place > 0 else f"slower{-place}" if place else "even"


CHARTS: Final = {
    each.__name__: each for each in (by_load, heat_map, over_time, position_lines, scale, top_of, y)
}
"""Functions of the template."""
