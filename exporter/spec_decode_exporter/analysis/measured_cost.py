"""Cost of a draft token by step times with and without drafts."""

from __future__ import annotations

from dataclasses import dataclass

from spec_decode_exporter.analysis.cost_source import CostSource


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """Cost of a draft token at one load, with its 95 % bounds."""

    running_requests: float
    """Load of the cost."""
    draft_cost_ratio: float
    """c: one more draft token, drafted and verified, in plain decode steps."""
    lower: float
    upper: float
    source: CostSource
    """Source of the step times without drafts: experiment, measured or baseline."""
