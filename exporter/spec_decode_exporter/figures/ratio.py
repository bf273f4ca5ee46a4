"""Divide; return None if the quotient is unknown or no finite number."""

from __future__ import annotations

from math import isfinite


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """Divide, or return None if a side is unknown, the denominator is 0 or the quotient exceeds a float."""
    if numerator is None or not denominator:
        return None
    quotient = numerator / denominator
    return quotient if isfinite(quotient) else None
