"""Draft tokens by load that would have been best, or what is missing to say so."""

from __future__ import annotations

from collections.abc import Iterator

from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.history.history_setting import HistorySetting
from spec_decode_exporter.reports.parts import FigureTable, Note, Part
from spec_decode_exporter.views.setting_text import by_load_text, uncertain_text
from spec_decode_exporter.views.setting_view import SettingView, view_of_setting

_MISSING = (
    "A setting by load needs the cost at two loads at least, so steps with drafts and steps without at each. "
    "A time without speculation by day and by night, or `cost.loads` in the file of --config.file, has them."
)


def setting_parts(found: HistorySetting | None) -> Iterator[Part]:
    """Yield the speed by load, and what to set."""
    if found is None:
        return
    if found.setting is not None:
        titles = ("running requests", "as it ran", "speed", "best", "speed")
        yield FigureTable(titles, tuple(map(_row, found.setting.bands)))
    yield Note(_text(found) or _missing(found))


def setting_model(found: HistorySetting | None) -> SettingView | None:
    """Return the JSON model; None without drafts."""
    if found is None:
        return None
    setting = found.setting or UNKNOWN_SETTING
    return view_of_setting(setting, found.speculation, text=_text(found), measure=_missing(found))


def _text(found: HistorySetting) -> str:
    """Return what would have been best; empty if it is unknown."""
    setting = found.setting
    return "" if setting is None or setting.tokens is None else by_load_text(setting)


def _missing(found: HistorySetting) -> str:
    """Return what a setting by load lacks; empty if it is known."""
    if found.setting is None:
        loads = ", ".join(f"{load:.3g}" for load in found.loads)
        known = f"measured at {loads} running requests alone" if loads else "not measured"
        return f"The best setting by load is unknown: the cost is {known}. {_MISSING}"
    if found.setting.tokens is None:
        return f"The best setting by load is unknown, as the cost is: {uncertain_text(found.setting)}"
    return ""


def _row(band: LoadBand) -> tuple[str, ...]:
    return (
        numbers.number_range(band.first, band.last),
        str(band.present_tokens),
        numbers.plain(band.present_speedup),
        str(band.tokens),
        numbers.plain(band.speedup),
    )
