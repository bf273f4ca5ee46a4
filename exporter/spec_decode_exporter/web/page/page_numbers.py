"""Numbers of the page: the shared formats with thin spaces, and the exact value in the element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spec_decode_exporter.core import number_formats
from spec_decode_exporter.web.page.markup import Markup, joined, tag

DASH: Final = "\u2013"
NOTHING: Final = tag("span", DASH, class_="none", title="no value")
"""Shown in place of an absent value."""

Format = Callable[[float], str]

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
    """Write a rate per second."""
    return number_formats.fixed_rate(per_second).translate(_THIN_SPACES)


def duration(seconds: float) -> str:
    """Write a time in seconds or milliseconds."""
    return number_formats.fixed_duration(seconds).translate(_THIN_SPACES)


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
