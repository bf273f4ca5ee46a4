"""Pace of evaluations: how often an engine without readers is evaluated, by the number of engines."""

from __future__ import annotations

from typing import Final

SHORTEST: Final = 5.0
"""Seconds between evaluations of an exporter with few engines."""
LONGEST: Final = 20.0
"""Seconds between evaluations with many: their windows are of minutes.

A Prometheus that reads every 15 s or more often causes evaluations enough.
"""
_PLACES_A_SECOND: Final = 50
"""Evaluations in a second, of all engines together: 2 to 5 % of a core. More only beyond 1,000 engines."""


def evaluation_interval(places: int) -> float:
    """Return the seconds between two evaluations of an engine.

    ``places`` are those of all engines in the capacity: one for an engine, more for a large one.
    """
    return min(LONGEST, max(SHORTEST, places / _PLACES_A_SECOND))
