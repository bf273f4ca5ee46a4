"""Setting of speculation: the number of draft tokens to configure, and its schedule by load."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule


class Obstacle(StrEnum):
    """Reason why vLLM ignores a schedule, or why it may cost more than it gains."""

    DATA_PARALLEL = "data_parallel"
    """Several data-parallel engines: vLLM drafts K at every load."""
    MODEL_RUNNER_V1 = "model_runner_v1"
    """vLLM 0.33 ignores the schedule of this method on Model Runner V1."""
    PIECEWISE_GRAPHS = "piecewise_graphs"
    """Model Runner V1 keeps the schedule, and runs piecewise CUDA graphs instead of full ones."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Load at which the schedule in force drafts nothing."""

    first: int
    """Fewest running requests without drafts."""
    drafted: float | None
    """Unix time of the drafts whose acceptance the setting is based on; None if no acceptance is known."""


@dataclass(frozen=True, slots=True)
class SpeculationSetting:
    """Recommended number of draft tokens, and its schedule."""

    tokens: int | None = None
    """K, the maximum by load; 0 is no speculation, None unknown."""
    schedule: BatchSchedule = NO_SCHEDULE
    """Recommended schedule; without ranges K applies to every load."""
    is_change: bool = False
    """True if it differs from the setting in force."""
    bands: tuple[LoadBand, ...] = ()
    """Speed-up by load, also if the setting is unknown; empty without a cost at several loads."""
    source: CostSource | None = None
    """Source of the cost by load; None without one."""
    known: tuple[float, float] | None = None
    """Lowest and highest load with a known cost."""
    obstacles: tuple[Obstacle, ...] = ()
    """Reasons against the schedule."""
    pause: Pause | None = None
    """Present pause of drafting by the schedule in force; None if it drafts."""


UNKNOWN_SETTING: Final = SpeculationSetting()
