"""Numbers for people: rounded to be read, with the exact value beside them for whoever compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spec_decode_exporter.web.page.markup import Markup, joined, tag

DASH: Final = "\u2013"
THIN_SPACE: Final = "\u202f"
TIMES: Final = "\u00d7"
NOTHING: Final = tag("span", DASH, class_="none", title="no value")
"""What has no value is not 0."""

Format = Callable[[float], str]


def percent(ratio: float) -> str:
    """Write a ratio as a share of a hundred."""
    return f"{100 * ratio:.1f}{THIN_SPACE}%"


def times(ratio: float) -> str:
    """Write a ratio that says how many times as much."""
    return f"{ratio:.2f}{TIMES}"


def plain(value: float) -> str:
    """Write a number of the size of a few."""
    return f"{value:.2f}"


def whole(count: float) -> str:
    """Write a count, its thousands apart."""
    return f"{count:,.0f}".replace(",", THIN_SPACE)


def rate(per_second: float) -> str:
    """Write a number a second."""
    return f"{per_second:,.1f}".replace(",", THIN_SPACE) + f"{THIN_SPACE}/s"


def duration(seconds: float) -> str:
    """Write a time in the unit in which it is read best."""
    if seconds < 1:
        return f"{1000 * seconds:.1f}{THIN_SPACE}ms"
    return f"{seconds:.2f}{THIN_SPACE}s"


def number(value: float | None, write: Format, **attributes: str) -> Markup:
    """Return a number with its exact value, or what stands where there is none."""
    if value is None:
        return NOTHING
    return tag("data", write(value), value=repr(value), **attributes)


def between(lower: float | None, upper: float | None, write: Format) -> Markup:
    """Return the bounds of a number; nothing where it has none."""
    if lower is None or upper is None:
        return Markup("")
    return tag(
        "small",
        joined((number(lower, write), DASH, number(upper, write))),
        class_="bounds",
        title="95 % bounds",
    )
