"""Card of the recommended setting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_setting import UNKNOWN_SETTING, Obstacle, SpeculationSetting
from spec_decode_exporter.views.models import SettingView

from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.views.setting_view import setting_view
from spec_decode_exporter.web.page.setting_card import setting_content

BANDS = (
    LoadBand(1, 7, 4, 2.3, 0.01, 4, 2.3, Verdict.OPTIMAL, is_improvable=False),
    LoadBand(8, 8, 0, 1.0, 0.02, 4, 0.9, Verdict.HARMFUL, is_improvable=True),
)
MTP = Speculation("mtp")
BY_LOAD = SpeculationSetting(
    4, BatchSchedule((1, 8), (4, 0)), True, BANDS, CostSource.MEASURED, (1.0, 8.0), (Obstacle.DATA_PARALLEL,)
)


@pytest.fixture(name="card")
def fixture_card(busy):
    def card(setting, speculation=MTP, action=Action.KEEP):
        evaluation = replace(busy.evaluation, setting=setting, action=action)
        return setting_content(setting_view(replace(busy, evaluation=evaluation, speculation=speculation)))

    return card


def test_the_table_scrolls_on_a_narrow_screen(card):
    assert '<div class="scrolls" tabindex="0" role="group" aria-label="Speed by load"><table' in card(BY_LOAD)


def test_the_advice_above_the_card_is_not_repeated():
    setting = SettingView.model_construct(
        tokens=0, text="Switch it off.", speculative_config="", bands=(), obstacles=(), measure=""
    )
    assert "Switch it off." in setting_content(setting)
    assert "Switch it off." not in setting_content(setting, "Switch it off.")


def test_an_unknown_setting_shows_what_to_measure_and_no_button(card):
    content = card(UNKNOWN_SETTING, action=Action.MEASURE_COST)
    assert "baseline.prometheus" in content
    assert "button" not in content


def test_without_advice_there_is_no_card(card):
    assert card(UNKNOWN_SETTING, action=Action.COLLECT) is None
