"""Estimate: a value with its error and bounds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio over one window with its 95 % bounds, all in the ratio's own unit."""

    value: float
    lower: float
    upper: float
    standard_error: float
    """At least that of independent drafts."""
    degrees: int = field(default=0, compare=False)
    """Degrees of freedom of the error: the cosines that it is the mean of; 0 if unknown."""
