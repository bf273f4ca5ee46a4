"""Number formats of reports and page: one function a kind of number.

An absent value is a dash, never 0. ``views.templating`` adds the thin spaces of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

ABSENT: Final = "-"

_MILLISECOND: Final = 1e-3
_DAY: Final = 86_400
_UNITS: Final = ((1, "s"), (60, "min"), (3600, "h"), (_DAY, ""))
_GIGABYTE, _MEGABYTE = 10**9, 10**6


def share(value: float | None) -> str:
    """Write a ratio between 0 and 1: ``0.612``."""
    return ABSENT if value is None else f"{value:.3f}"


def percent(ratio: float | None) -> str:
    """Write a ratio in percent: ``61.2 %``."""
    return ABSENT if ratio is None else f"{100 * ratio:.1f} %"


def plain(value: float | None) -> str:
    """Write a number of tokens or a speed-up: ``3.45``."""
    return ABSENT if value is None else f"{value:.2f}"


def times(ratio: float) -> str:
    """Write a factor: ``1.23\u00d7``."""
    return f"{ratio:.2f}\u00d7"


def count(value: float | None) -> str:
    """Write a whole number: ``4,210``."""
    return ABSENT if value is None else f"{value:,.0f}"


def plural(number: int, noun: str) -> str:
    """Write a count with its noun: ``1 token``, ``4,210 tokens``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def number_range(first: int, last: int) -> str:
    """Write whole numbers from the first to the last: ``8 to 15``, or ``8``."""
    return str(first) if first == last else f"{first} to {last}"


def rate(per_second: float | None) -> str:
    """Write a rate per second with three digits: ``1,234``, ``12.3`` or ``0.25``."""
    return ABSENT if per_second is None else three_digits(per_second, 2)


def duration(seconds: float | None) -> str:
    """Write a time with three digits in seconds or milliseconds: ``12.3 ms``, ``1.23 s``."""
    if seconds is None:
        return ABSENT
    if seconds >= 1:
        return f"{three_digits(seconds, 3)} s"
    return f"{three_digits(seconds / _MILLISECOND, 3)} ms"


def within(lower: float, upper: float, unit: float, name: str) -> str:
    """Write the edges of a bucket: ``< 300 ms``, ``25 to 50 ms``, ``> 2,560 s``; ``unit`` is in seconds."""
    low, high = (f"{round(edge / unit, 3):,.10g}" for edge in (lower, upper))
    if not lower:
        return f"< {high} {name}"
    return f"{low} to {high} {name}" if upper < inf else f"> {low} {name}"


def change(ratio: float) -> str:
    """Write a ratio of two values as a relative change: ``+4 %``, ``-12 %``."""
    relative = round((ratio - 1) * 100)
    return f"{relative:+d} %" if relative else "same"


def bounds(lower: float | None, upper: float | None, digits: int = 2) -> str:
    """Write the 95 % bounds of a value: ``1.20 to 1.35``; empty if they are unknown."""
    return "" if lower is None or upper is None else f"{lower:.{digits}f} to {upper:.{digits}f}"


def gigabytes(size: float) -> str:
    """Write bytes in GB of 10^9 bytes, or MB: ``156 GB``, ``16.0 GB``, ``0.31 GB``, ``5.80 MB``."""
    unit, name = (_GIGABYTE, "GB") if abs(size) >= _GIGABYTE / 10 or not size else (_MEGABYTE, "MB")
    return f"{three_digits(size / unit, 2)} {name}"


def three_digits(value: float, max_decimals: int) -> str:
    """Write a number with three significant digits, and at most ``max_decimals`` decimals."""
    limits = (100.0, 10.0, 1.0)[:max_decimals]
    decimals = next((place for place, limit in enumerate(limits) if abs(value) >= limit), max_decimals)
    return f"{value:,.{decimals}f}"


def utc_clock(unix: float) -> str:
    """Write a Unix time as a time of day: ``14:03:05 UTC``."""
    return f"{datetime.fromtimestamp(unix, UTC):%H:%M:%S} UTC"


def utc_span(begin: float, end: float) -> str:
    """Write two Unix times: ``24 Nov 10:00 to 26 Nov 09:30 UTC``, ``26 Nov 08:00 to 09:30 UTC``."""
    first, last = (datetime.fromtimestamp(each, UTC) for each in (begin, end))
    day = "" if first.date() == last.date() else f"{last.day} {last:%b} "
    return f"{first.day} {first:%b %H:%M} to {day}{last:%H:%M} UTC"


def long_time(seconds: float) -> str:
    """Write a time in the unit of which it has two or more: ``90 s``, ``2 min``, ``119 min``, ``2 days``."""
    for (unit, name), (following, _) in pairwise(_UNITS):
        if seconds < 2 * following:
            return f"{seconds / unit:.0f} {name}"
    return plural(round(seconds / _DAY), "day")


def ago(seconds: float) -> str:
    """Write an age in its two largest units: ``34 s ago``, ``2 min 5 s ago``, ``1 h 3 min ago``."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes_rest = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_rest} min ago"
    return f"{minutes} min {rest} s ago" if minutes else f"{rest} s ago"


def fill(template: str, values: Mapping[str, float]) -> str:
    """Fill a template of ``str.format`` with four more formats.

    ``{tokens:plural draft token}`` writes a count with its noun, ``{acceptance:percent}`` a ratio in percent,
    ``{began:clock}`` a Unix time as the time of day, and ``{age:ago}`` an age in seconds.
    """
    return template.format_map({name: _Value(value) for name, value in values.items()})


class _Value(NamedTuple):
    """Value of a template."""

    value: float

    def __format__(self, form: str) -> str:
        command, _, noun = form.partition(" ")
        if command == "plural":
            return plural(round(self.value), noun)
        write = _COMMANDS.get(command)
        return format(self.value, form) if write is None else write(self.value)


_COMMANDS: Final = {"clock": utc_clock, "ago": ago, "percent": percent}
