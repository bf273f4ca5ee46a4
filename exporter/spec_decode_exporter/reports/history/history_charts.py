"""Charts of a history in SVG. They stretch to their container, so their labels are HTML beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil, floor, log2
from typing import Final

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.history.history_changes import HistoryChange, HistoryDrop
from spec_decode_exporter.history.history_summary import (
    SPECULATING,
    by_day_and_hour,
    mean_speedup,
    positions,
    summary,
)
from spec_decode_exporter.history.slot_evaluation import Outcome, SlotResult
from spec_decode_exporter.reports.html_parts import html_text

_WIDTH: Final = 1000
_HEIGHT: Final = 200
MAX_DAYS: Final = 31
"""Maximum days of a heat map: the newest."""
MAX_POINTS: Final = 700
"""Maximum points of a line: more than pixels are not visible."""
MAX_POSITIONS: Final = 8
_COLORS: Final = 5
"""Classes of the style sheet for slower, and for faster."""
_HOURS: Final = 24
_MARGIN: Final = 0.25
"""Doublings between the points of the load chart and its edges."""
_DAY: Final = 86400.0


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Time axis of the charts."""

    begin: float
    end: float

    def x(self, time: float) -> float:
        """Return the horizontal place of a Unix time."""
        return _WIDTH * (min(max(time, self.begin), self.end) - self.begin) / (self.end - self.begin)

    def labels(self) -> list[str]:
        """Return five labels at equal distances; they name the day, or the time of a short span."""
        form = "%d %b" if self.end - self.begin > 4 * _DAY else "%d %b %H:%M"
        times = (self.begin + (self.end - self.begin) * step / 4 for step in range(5))
        return [f"{datetime.fromtimestamp(time, UTC):{form}}" for time in times]


def timeline(
    engines: Sequence[Sequence[SlotResult]],
    span: TimeSpan,
    changes: Iterable[HistoryChange] = (),
    drops: Iterable[HistoryDrop] = (),
) -> str:
    """Draw the speed-up with its bounds over time, and a line at 1; empty without a speed-up."""
    points = _speedups([slot for slots in engines for slot in slots])
    if not points:
        return ""
    top = _top(upper for _, _, _, _, upper in points)
    parts = [_grid(top), _even(top)]
    for begin, end, _, lower, upper in points:
        x, width = span.x(begin), max(span.x(end) - span.x(begin), 1.0)
        y = _y(upper, top)
        parts.append(
            f'<rect class="bounds" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{max(_y(lower, top) - y, 0.5):.1f}"/>'
        )
    lines = (
        f"M{span.x(begin):.1f} {_y(value, top):.1f}H{max(span.x(end), span.x(begin) + 1):.1f}"
        for begin, end, value, _, _ in points
    )
    parts.append(f'<path class="line" d="{"".join(lines)}"/>')
    parts += [_mark(span.x(each.time), "change", each.name) for each in changes]
    parts += [_mark(span.x(each.begin), "drop", f"{each.kind} drop") for each in drops]
    title = f"Speed-up over time, {min(point[2] for point in points):.2f} to "
    title += f"{max(point[2] for point in points):.2f}; the shaded area is its 95 % bounds."
    return _framed(parts, title, _scale(top), span.labels())


def load_chart(slots: Sequence[SlotResult]) -> str:
    """Draw the speed-up of each slot against its load, with its bounds; empty without a speed-up."""
    known = [
        (slot.running_requests, slot.speedup) for slot in slots if slot.speedup and slot.running_requests
    ]
    if not known:
        return ""
    loads = [log2(max(load, 1.0)) for load, _ in known]
    low, high = floor(min(loads) - _MARGIN), ceil(max(loads) + _MARGIN)
    top = _top(speedup.upper for _, speedup in known)
    parts = [_grid(top), _even(top)]
    step = ceil(len(known) / MAX_POINTS)
    for load, (_, speedup) in list(zip(loads, known, strict=True))[::step]:
        x = _WIDTH * (load - low) / (high - low)
        lower, value, upper = (_y(each, top) for each in (speedup.lower, speedup.value, speedup.upper))
        parts.append(
            f'<path class="range" d="M{x:.1f} {upper:.1f}V{lower:.1f}"/>'
            f'<path class="dot" d="M{x:.1f} {value:.1f}h0"/>'
        )
    labels = [f"{2.0**each:,.3g}" for each in range(low, high + 1)]
    return _framed(parts, "Speed-up of each slot against its running requests.", _scale(top), labels)


def positions_chart(slots: Sequence[SlotResult], span: TimeSpan) -> str:
    """Draw the acceptance of each position over time; empty without positions."""
    drafting = [slot for slot in slots if slot.drafts and slot.positions]
    if not drafting:
        return ""
    size = ceil(len(drafting) / MAX_POINTS * 4)
    groups = [drafting[begin : begin + size] for begin in range(0, len(drafting), size)]
    rows = [((each[0].begin + each[-1].end) / 2, each[0].era, positions(each)) for each in groups]
    number = min(max(len(row) for _, _, row in rows), MAX_POSITIONS)
    parts = [_grid(1.0)]
    for place in range(number):
        known = [(time, era, row[place]) for time, era, row in rows if place < len(row)]
        parts.append(f'<path class="line p{place}" d="{_path(known, span)}"/>')
    names = ", ".join(f'<span class="key p{place}">{place}</span>' for place in range(number))
    scale = [f"{100 * share:.0f} %" for share in (1.0, 0.5, 0.0)]
    chart = _framed(parts, "Share of drafts that each position was accepted in.", scale, span.labels())
    return f'{chart}<p class="legend">Position {names}</p>'


def heat_map(slots: Sequence[SlotResult]) -> str:
    """Draw the speed-up by day and hour (UTC) as a table of colored cells; empty without a speed-up."""
    groups = by_day_and_hour(slots)
    days = sorted({day for day, _ in groups})[-MAX_DAYS:]
    if not any(mean_speedup(members) for members in groups.values()):
        return ""
    rows = []
    for day in days:
        cells = "".join(_cell(groups.get((day, hour), [])) for hour in range(_HOURS))
        rows.append(f"<tr><th>{html_text(day[5:])}</th>{cells}</tr>")
    heads = "".join(f"<th>{hour if hour % 6 == 0 else ''}</th>" for hour in range(_HOURS))
    legend = "".join(
        f'<span class="cell {name}"></span>{text} '
        for name, text in (("bad4", "0.5"), ("even", "1"), ("good2", "1.5"), ("good4", "2 or more"))
    )
    return (
        f'<table class="heat"><thead><tr><th></th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        f'<p class="legend">Speed-up {legend}; a dot: its bounds include 1</p>'
    )


def _cell(slots: Sequence[SlotResult]) -> str:
    speedup = mean_speedup(slots)
    if speedup is None:
        return "<td></td>"
    found = summary(slots)
    unclear = (found.share_of_time(Outcome.UNCLEAR) or 0.0) > 1 / 2 or speedup.lower < 1 <= speedup.upper
    text = f"{speedup.value:.2f} ({speedup.lower:.2f} to {speedup.upper:.2f})"
    return f'<td class="{_color(speedup.value)}" title="{text}">{"·" if unclear else ""}</td>'


def _color(speedup: float) -> str:
    """Return the class of a speed-up: five for slower, down to a half, and five for faster, up to two."""
    place = round((_COLORS - 1) * min(max(log2(max(speedup, 1e-3)), -1.0), 1.0))
    if not place:
        return "even"
    return f"good{place}" if place > 0 else f"bad{-place}"


def _speedups(slots: Sequence[SlotResult]) -> list[tuple[float, float, float, float, float]]:
    """Return begin, end and mean speed-up with bounds of at most ``MAX_POINTS`` times, over all engines."""
    known = sorted((slot for slot in slots if slot.outcome in SPECULATING), key=lambda slot: slot.begin)
    if not known:
        return []
    longest = max(slot.end - slot.begin for slot in known)
    width = max((known[-1].end - known[0].begin) / MAX_POINTS, longest, 1.0)
    groups: dict[int, list[SlotResult]] = {}
    for slot in known:
        groups.setdefault(int((slot.begin + slot.end) / 2 // width), []).append(slot)
    found = []
    for members in groups.values():
        speedup = mean_speedup(members)
        if speedup is not None:
            end = max(slot.end for slot in members)
            found.append((members[0].begin, end, speedup.value, speedup.lower, speedup.upper))
    return found


def _path(known: Sequence[tuple[float, int, float]], span: TimeSpan) -> str:
    """Return a line that is interrupted between two eras."""
    drawn = []
    for before, (time, era, value) in pairwise([(0.0, -1, 0.0), *known]):
        drawn.append(
            f"{'L' if before[1] == era else 'M'}{span.x(time):.1f} {_HEIGHT * (1 - min(value, 1.0)):.1f}"
        )
    return "".join(drawn) + ("h0" if len(known) == 1 else "")


def _framed(parts: Iterable[str], title: str, scale: Sequence[str], labels: Sequence[str]) -> str:
    drawn = "".join(parts)
    text = html_text(title)
    svg = (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text}"><title>{text}</title>{drawn}</svg>'
    )
    sides = "".join(f"<span>{html_text(each)}</span>" for each in scale)
    below = "".join(f"<span>{html_text(each)}</span>" for each in labels)
    return (
        f'<div class="plot"><div class="scale">{sides}</div>{svg}<div></div>'
        f'<div class="axis labels{len(labels)}">{below}</div></div>'
    )


def _top(uppers: Iterable[float]) -> float:
    """Return the top of the scale: above the highest bound, at most 8."""
    return min(max(2.0, ceil(2 * max(uppers)) / 2), 8.0)


def _scale(top: float) -> list[str]:
    return [numbers.plain(top * share) for share in (1.0, 0.5, 0.0)]


def _y(value: float, top: float) -> float:
    return _HEIGHT * (1 - min(max(value, 0.0), top) / top)


def _grid(top: float) -> str:
    return "".join(_horizontal(top * share, top, "grid") for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def _even(top: float) -> str:
    return _horizontal(1.0, top, "even")


def _horizontal(value: float, top: float, kind: str) -> str:
    y = f"{_y(value, top):.1f}"
    return f'<line class="{kind}" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>'


def _mark(x: float, kind: str, text: str) -> str:
    return (
        f'<g class="{kind}"><title>{html_text(text)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}"/></g>'
    )
