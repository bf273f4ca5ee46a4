"""JSON models of the recommended setting of speculation."""

from __future__ import annotations

from pydantic import Field

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.speculation_setting import Obstacle
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.views.window_models import View


class LoadBandView(View):
    """Loads with one recommended and one present number of draft tokens."""

    first: int = Field(description="Fewest running requests.")
    last: int = Field(description="Most running requests.")
    tokens: int = Field(description="Recommended draft tokens; 0 is none.")
    speedup_ratio: float = Field(description="Their mean speed relative to no speculation over the loads.")
    present_tokens: int = Field(description="Draft tokens by the setting in force.")
    present_speedup_ratio: float = Field(description="Likewise their speed.")
    verdict: Verdict | None = Field(
        description="Verdict on the draft tokens in force, decode only; null if they are 0."
    )
    regret_ratio: float = Field(
        description="Largest share of the best speed that the recommended tokens lose at any possible cost."
    )


class ObstacleView(View):
    """Reason against a schedule."""

    name: Obstacle
    text: str = Field(description="The reason and the remedy.")


class SettingView(View):
    """Recommended setting of speculation, by load if the cost is known at several loads."""

    tokens: int | None = Field(
        description="`num_speculative_tokens` to set; 0 is no speculation, null is unknown."
    )
    schedule: tuple[tuple[int, int, int], ...] = Field(
        description="`num_speculative_tokens_per_batch_size` to set: first and last number of running "
        "requests, and draft tokens; empty for one number at every load."
    )
    change: bool = Field(description="Whether it differs from the setting in force.")
    speculative_config: str = Field(
        description="Value of vLLM's `--speculative-config`, JSON; empty without tokens."
    )
    complete: bool = Field(
        description="Whether `speculative_config` has all keys that vLLM needs; else it has those to change."
    )
    text: str = Field(description="What to set and why.")
    measure: str = Field(
        description="What to measure for a setting, or for one by load; empty if it is known."
    )
    obstacles: tuple[ObstacleView, ...] = Field(
        description="Reasons why vLLM ignores the schedule, or why it may cost more than it gains."
    )
    bands: tuple[LoadBandView, ...] = Field(
        description="Ascending by load, without gaps; empty unless the cost is known at several loads."
    )
    paused_from: int | None = Field(
        description="Fewest running requests at which the schedule in force drafts nothing, if it is in this "
        "range now; else null."
    )
    drafted_time: float | None = Field(
        description="Unix time of the drafts whose acceptance counts during the pause; null without any."
    )
    source: CostSource | None = Field(description="Source of the cost by load; null without one.")
    lowest_running_requests: float | None = Field(description="Lowest load with a known cost.")
    highest_running_requests: float | None = Field(description="Highest load with a known cost.")
