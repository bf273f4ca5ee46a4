"""The one division of the house: 0/0 has no value, and neither has anything over nothing."""

from __future__ import annotations


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """Divide, or return None where either side is unknown or the denominator is 0."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator
