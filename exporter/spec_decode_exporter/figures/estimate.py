"""A value, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio over one window with its 95 % bounds, all in the ratio's own unit."""

    value: float
    lower: float
    upper: float
    standard_error: float
    """Never below that of independent drafts."""
    degrees: int = field(default=0, compare=False)
    """The degrees of freedom of the error: of how many cosines it is the mean. 0 where nobody said."""
