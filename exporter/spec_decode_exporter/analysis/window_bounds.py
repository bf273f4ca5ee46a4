"""Bounds of one window's figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spec_decode_exporter.figures.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Bounds:
    """Estimates of one window with their bounds; None if the window has none."""

    acceptance_ratio: Estimate | None = None
    acceptance_length: Estimate | None = None
    speedup: Estimate | None = None
    """With the interval of the cost."""
    break_even_cost: Estimate | None = None
    tokens_per_step: Estimate | None = None
    """None if steps are unknown too."""


NO_BOUNDS: Final = Bounds()
