"""Document of a recommended setting of speculation, by load if the cost is known at several loads."""

from __future__ import annotations

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.recommended_setting import Obstacle, SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.views.document import View, at
from spec_decode_exporter.views.setting_text import measure_text, obstacle_text, setting_text
from spec_decode_exporter.views.speculative_config import ranges, speculative_config

# fmt: off


class LoadBandView(View):
    """Loads with one recommended and one present number of draft tokens."""

    first: int = at("Fewest running requests.")
    last: int = at("Most running requests.")
    tokens: int = at("Recommended draft tokens; 0 is none.")
    speedup_ratio: float = at("Their mean speed relative to no speculation over the loads.", "speedup")
    present_tokens: int = at("Draft tokens by the setting in force.")
    present_speedup_ratio: float = at("Their mean speed over the loads.", "present_speedup")
    verdict: Verdict | None = at("Verdict on the draft tokens in force, decode only; null if they are 0.")
    regret_ratio: float = at("Largest share of the best speed that the recommended tokens lose at any possible cost.", "regret")


class ObstacleView(View):
    """Reason against a schedule."""

    name: Obstacle
    text: str = at("The reason and the remedy.")


class SettingView(View):
    """Recommended setting of speculation, by load if the cost is known at several loads."""

    tokens: int | None = at("`num_speculative_tokens` to set; 0 is no speculation, null is unknown.")
    schedule: tuple[tuple[int, int, int], ...] = at("`num_speculative_tokens_per_batch_size` to set: first and last number of running requests, and draft tokens; empty for one number at every load.")
    change: bool = at("Whether it differs from the setting in force.", "is_change")
    speculative_config: str = at("Value of vLLM's `--speculative-config`, JSON; empty without tokens.")
    complete: bool = at("Whether `speculative_config` has all keys that vLLM needs; else it has those to change.")
    text: str = at("What to set and why.")
    measure: str = at("What to measure for a setting, or for one by load; empty if it is known.")
    obstacles: tuple[ObstacleView, ...] = at("Reasons why vLLM ignores the schedule, or why it may cost more than it gains.")
    bands: tuple[LoadBandView, ...] = at("Ascending by load, without gaps; empty unless the cost is known at several loads.")
    paused_from: int | None = at("Fewest running requests at which the schedule in force drafts nothing, if it is in this range now; else null.", "pause.first", default=None)
    drafted_time: float | None = at("Unix time of the drafts whose acceptance counts during the pause; null without any.", "pause.drafted", default=None)
    source: CostSource | None = at("Source of the cost by load; null without one.")
    lowest_running_requests: float | None = at("Lowest load with a known cost.")
    highest_running_requests: float | None = at("Highest load with a known cost.")

# fmt: on


def setting_view(snapshot: EngineSnapshot) -> SettingView:
    """Return the document of an engine's recommended setting."""
    evaluation = snapshot.evaluation
    setting, texts = evaluation.setting, (setting_text(snapshot), measure_text(evaluation))
    return view_of_setting(setting, evaluation.known.speculation, *texts)


def view_of_setting(
    setting: SpeculationSetting, speculation: Speculation, text: str, measure: str
) -> SettingView:
    """Return the document of a setting with its texts: what to set, and what to measure."""
    config = speculative_config(setting, speculation)
    low, high = setting.known or (None, None)
    return SettingView.of(
        setting,
        schedule=ranges(setting),
        speculative_config=config.text,
        complete=config.is_complete,
        text=text,
        measure=measure,
        obstacles=[ObstacleView(name=each, text=obstacle_text(each, setting)) for each in setting.obstacles],
        lowest_running_requests=low,
        highest_running_requests=high,
    )
