"""Sources of the cost of drafting."""

from __future__ import annotations

from enum import StrEnum


class CostSource(StrEnum):
    """Source of a cost, the most certain first; the value is the ``source`` label."""

    EXPERIMENT = "experiment"
    """Step times of this engine with drafts, and of the baseline of its experiment without."""
    MEASURED = "measured"
    """Step times of this engine at the same load with and without drafts: see ``StepTimes``."""
    BASELINE = "baseline"
    """Step times with drafts, and those learned while the target served the model without speculation."""
    CONFIGURED = "configured"
    """Configuration."""
    SIZES = "sizes"
    """Numbers of parameters of the draft model and of the target model."""
    TYPICAL = "typical"
    """Range of costs of the method over published models: see ``typical_costs``."""
