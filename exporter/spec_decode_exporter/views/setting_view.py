"""Build the JSON model of the recommended setting."""

from __future__ import annotations

from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_setting import SpeculationSetting
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.views.setting_models import LoadBandView, ObstacleView, SettingView
from spec_decode_exporter.views.setting_text import measure_text, obstacle_text, setting_text
from spec_decode_exporter.views.speculative_config import ranges, speculative_config


def setting_view(snapshot: EngineSnapshot) -> SettingView:
    """Return the JSON model of an engine's recommended setting."""
    setting = snapshot.evaluation.setting
    return view_of_setting(
        setting, snapshot.speculation, text=setting_text(snapshot), measure=measure_text(snapshot)
    )


def view_of_setting(
    setting: SpeculationSetting, speculation: Speculation, *, text: str, measure: str
) -> SettingView:
    """Return the JSON model of a setting with its texts: what to set, and what to measure."""
    config = speculative_config(setting, speculation)
    low, high = setting.known or (None, None)
    pause = setting.pause
    return SettingView(
        tokens=setting.tokens,
        schedule=tuple(ranges(setting)),
        change=setting.is_change,
        speculative_config=config.text,
        complete=config.is_complete,
        text=text,
        measure=measure,
        obstacles=tuple(
            ObstacleView(name=each, text=obstacle_text(each, setting)) for each in setting.obstacles
        ),
        bands=tuple(map(_band, setting.bands)),
        paused_from=None if pause is None else pause.first,
        drafted_time=None if pause is None else pause.drafted,
        source=setting.source,
        lowest_running_requests=low,
        highest_running_requests=high,
    )


def _band(band: LoadBand) -> LoadBandView:
    return LoadBandView(
        first=band.first,
        last=band.last,
        tokens=band.tokens,
        speedup_ratio=band.speedup,
        present_tokens=band.present_tokens,
        present_speedup_ratio=band.present_speedup,
        verdict=band.verdict,
        regret_ratio=band.regret,
    )
