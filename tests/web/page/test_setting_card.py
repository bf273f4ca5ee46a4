"""Card of the recommended setting."""

from __future__ import annotations

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING, Obstacle, SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.views.engine_view import view_of_setting
from spec_decode_exporter.web.page.setting_card import setting_content

BANDS = (
    LoadBand(1, 7, 4, 2.3, 0.01, 4, 2.3, Verdict.OPTIMAL, is_improvable=False),
    LoadBand(8, 8, 0, 1.0, 0.02, 4, 0.9, Verdict.HARMFUL, is_improvable=True),
)
MTP = Speculation("mtp")
BY_LOAD = SpeculationSetting(
    4, BatchSchedule((1, 8), (4, 0)), True, BANDS, CostSource.MEASURED, (1.0, 8.0), (Obstacle.DATA_PARALLEL,)
)


def card(setting, text="", measure=""):
    return setting_content(view_of_setting(setting, MTP, text, measure))


def test_the_table_scrolls_on_a_narrow_screen():
    assert '<div class="scrolls" tabindex="0" role="group" aria-label="Speed by load"><table' in card(BY_LOAD)


def test_the_advice_above_the_card_is_not_repeated():
    setting = view_of_setting(SpeculationSetting(0, is_change=True), MTP, "Switch it off.", "")
    assert "Switch it off." in setting_content(setting)
    assert "Switch it off." not in setting_content(setting, "Switch it off.")


def test_an_unknown_setting_shows_what_to_measure_and_no_button():
    content = card(UNKNOWN_SETTING, "Measure it.", "Run it without drafts for ten minutes.")
    assert "Run it without drafts for ten minutes." in content
    assert "button" not in content


def test_without_advice_there_is_no_card():
    assert card(UNKNOWN_SETTING, "No advice yet.") is None
