"""Period in which a target served a model without speculation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from spec_decode_exporter.analysis.end_to_end import RequestBaseline
from spec_decode_exporter.core.number_formats import plural

_MINUTE: Final = 60
_HOUR: Final = 3600
_LONG: Final = 2
"""A length from two units on is written in them: 90 s, 2 min; 119 min, 2 h."""


@dataclass(frozen=True, slots=True)
class PlainPeriod:
    """Length and age of the baseline of an engine, and its requests."""

    seconds: float
    """Time with requests that the baseline covers, in seconds."""
    end: float
    """Unix time of its end."""
    age_seconds: float
    """Time from its end to the newest poll; 0 while the target serves the model without speculation."""
    request: RequestBaseline | None
    """Its mean request; None if it had too few."""

    @property
    def name(self) -> str:
        """Name in a sentence, with the day of its end (UTC): ``3 h without speculation on 12 November``."""
        day = datetime.fromtimestamp(self.end, UTC)
        return f"{_length(self.seconds)} without speculation on {day.day} {day:%B}"


def _length(seconds: float) -> str:
    if seconds < _LONG * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _LONG * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < _LONG * 24 * _HOUR:
        return f"{seconds / _HOUR:.0f} h"
    return plural(round(seconds / (24 * _HOUR)), "day")
