"""Moments for people: how long ago, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from spec_decode_exporter.web.page.markup import Markup, tag

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def clock_time(unix: float) -> str:
    """Write a moment as the time of day, of which the time zone is said."""
    return f"{datetime.fromtimestamp(unix, UTC):%H:%M:%S} UTC"


def ago(seconds: float) -> str:
    """Write how long ago something was, in whole ones of its largest unit."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return "just now"


def moment(unix: float, now: float) -> Markup:
    """Return a moment as how long ago it was, with the exact time beside it."""
    exact = datetime.fromtimestamp(unix, UTC)
    return tag(
        "time", ago(now - unix), datetime=exact.isoformat(timespec="milliseconds"), title=f"{exact:%F %T} UTC"
    )
