"""Numbers and moments of the page: shared formats with thin spaces, exact values in the elements."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from spec_decode_exporter.core import number_formats
from spec_decode_exporter.web.page.markup import Markup, joined, tag

DASH: Final = "\u2013"
NOTHING: Final = tag("span", DASH, class_="none", title="no value")
"""Shown in place of an absent value."""

Format = Callable[[float], str]

_AGE_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_THIN_SPACES: Final = str.maketrans({" ": "\u202f", ",": "\u202f"})


def percent(ratio: float) -> str:
    """Write a ratio in percent."""
    return number_formats.percent(ratio).translate(_THIN_SPACES)


def times(ratio: float) -> str:
    """Write a factor."""
    return number_formats.times(ratio)


def plain(value: float) -> str:
    """Write a small number with two decimals."""
    return number_formats.plain(value)


def whole(count: float) -> str:
    """Write a count."""
    return number_formats.count(count).translate(_THIN_SPACES)


def rate(per_second: float) -> str:
    """Write a rate per second with one decimal: it changes often."""
    return f"{per_second:,.1f} /s".translate(_THIN_SPACES)


def duration(seconds: float) -> str:
    """Write a time in seconds or milliseconds with fixed decimals: it changes often."""
    text = f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
    return text.translate(_THIN_SPACES)


def number(value: float | None, write: Format, **attributes: str) -> Markup:
    """Return a number with its exact value, or a dash if it is absent."""
    if value is None:
        return NOTHING
    return tag("data", write(value), value=repr(value), **attributes)


def between(lower: float | None, upper: float | None, write: Format) -> Markup:
    """Return the 95 % bounds of a number; empty if they are unknown."""
    if lower is None or upper is None:
        return Markup("")
    return tag(
        "small",
        joined((number(lower, write), DASH, number(upper, write))),
        class_="bounds",
        title="95 % bounds",
    )


def ago(seconds: float) -> str:
    """Write an age in whole numbers of its largest unit."""
    for length, unit in _AGE_UNITS:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return "just now"


def moment(unix: float, now: float) -> Markup:
    """Return a moment as its age, with the exact time in the element."""
    exact = datetime.fromtimestamp(unix, UTC)
    return tag(
        "time", ago(now - unix), datetime=exact.isoformat(timespec="milliseconds"), title=f"{exact:%F %T} UTC"
    )
