"""Numbers for people. What has no value is a dash: never 0."""

from __future__ import annotations

from math import inf
from typing import Final

from spec_decode_exporter.figures.latency import Edges
from spec_decode_exporter.views.models import BucketView, Estimated

NONE: Final = "-"
_SECOND: Final = 1.0
_MILLISECOND: Final = 1e-3


def share(value: float | None) -> str:
    """Write a part of a whole: ``0.612``."""
    return NONE if value is None else f"{value:.3f}"


def plain(value: float | None) -> str:
    """Write a number of tokens or of times: ``3.45``."""
    return NONE if value is None else f"{value:.2f}"


def count(value: float | None) -> str:
    """Write a whole number: ``4,210``."""
    return NONE if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Write something a second: ``1,234``, ``12.3`` or ``0.25``."""
    if value is None:
        return NONE
    digits = next((digits for digits, least in enumerate((100.0, 10.0)) if value >= least), 2)
    return f"{value:,.{digits}f}"


def time(seconds: float | None) -> str:
    """Write a time with three digits in a unit that suits it: ``12.3 ms``, ``1.23 s``."""
    if seconds is None:
        return NONE
    if seconds >= _SECOND:
        return f"{_three_digits(seconds)} s"
    return f"{_three_digits(seconds / _MILLISECOND)} ms"


def quantile(value: float | None, bucket: BucketView | None) -> str:
    """Write a quantile of times that was interpolated in a bucket; its edges if they are far apart."""
    if value is None or bucket is None:
        return time(value)
    edges = Edges(bucket.lower, inf if bucket.upper is None else bucket.upper)
    if not edges.are_far_apart:
        return time(value)
    largest = edges.upper if edges.upper < inf else edges.lower
    return within(edges, _SECOND, "s") if largest >= _SECOND else within(edges, _MILLISECOND, "ms")


def within(edges: Edges, unit: float, name: str) -> str:
    """Write where a time lies: ``< 300 ms``, ``25 to 50 ms``, ``> 2,560 s``; ``unit`` is in seconds."""
    lower, upper = (f"{round(edge / unit, 3):,.10g}" for edge in edges)
    if not edges.lower:
        return f"< {upper} {name}"
    return f"{lower} to {upper} {name}" if edges.upper < inf else f"> {lower} {name}"


def change(ratio: float) -> str:
    """Write by how much something is more or less than before: ``+4 %``, ``-12 %``."""
    percent = round((ratio - 1) * 100)
    return f"{percent:+d} %" if percent else "same"


def bounds(estimate: Estimated, digits: int) -> str:
    """Write where a value lies with 95 % confidence; empty where nobody knows."""
    if estimate.lower is None or estimate.upper is None:
        return ""
    return f"{estimate.lower:.{digits}f} to {estimate.upper:.{digits}f}"


def _three_digits(value: float) -> str:
    digits = next((digits for digits, least in enumerate((100.0, 10.0, 1.0)) if value >= least), 3)
    return f"{value:,.{digits}f}"
