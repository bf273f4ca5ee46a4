"""Recommended setting as JSON, as text, and as vLLM's flag."""

import json
from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.recommended_setting import (
    UNKNOWN_SETTING,
    Obstacle,
    Pause,
    SpeculationSetting,
)
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action
from spec_decode_exporter.config.batch_schedule import MAX_BATCH, BatchSchedule, batch_schedule
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.views.engine_view import SettingView, setting_view
from tests.fakes.evaluations import advised

BANDS = (
    LoadBand(1, 7, 4, 2.3, 0.01, 4, 2.3),
    LoadBand(8, 31, 4, 1.4, 0.05, 0, 1.0),
    LoadBand(32, 64, 0, 1.0, 0.02, 0, 1.0),
)
SCHEDULE, LOADS = BatchSchedule((1, 32), (4, 0)), (2.0, 64.0)
BY_LOAD = SpeculationSetting(4, SCHEDULE, True, BANDS, CostSource.MEASURED, LOADS, (Obstacle.DATA_PARALLEL,))
EAGLE = Speculation("eagle3", "configured", "org/draft", 4)


def shown(busy, setting, speculation=EAGLE, action=Action.KEEP):
    return setting_view(advised(busy, setting, speculation, action))


def test_the_flag_has_the_method_the_model_and_a_schedule_that_the_exporter_reads_again(busy):
    view = shown(busy, BY_LOAD)
    flag = json.loads(view.speculative_config)
    again = batch_schedule(flag.pop("num_speculative_tokens_per_batch_size"))
    assert again == BY_LOAD.schedule
    assert again.ranges[-1] == (32, MAX_BATCH, 0)
    assert flag == {"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 4}
    assert (view.complete, view.tokens, view.change) == (True, 4, True)
    assert view.schedule == ((1, 31, 4), (32, 64, 0))


@pytest.mark.parametrize(
    ("speculation", "named"),
    [
        (Speculation("mtp", "server_info", "target/itself"), {"method": "mtp"}),
        (Speculation("ngram", "label"), {"method": "ngram"}),
        (Speculation("eagle3", "label"), None),
        (Speculation(), None),
        (Speculation("eagle3", "server_info", "x'; rm -rf /; '"), None),
        (Speculation("draft_model", "server_info", "/models/small-1.2"), {"method": "draft_model", "model": "/models/small-1.2"}),
        (Speculation("ngram", "label", rejection_method="fly"), {"method": "ngram", "rejection_sample_method": "fly"}),
        (Speculation("mtp", "server_info", is_adaptive=True), {"method": "mtp", "enable_adaptive_verification": True}),
        (Speculation("eagle3", draft_model="p/eagle", drafts_in_parallel=True), {"method": "eagle3", "model": "p/eagle", "parallel_drafting": True}),
        (Speculation("dflash", draft_model="d/flash", drafts_in_parallel=True), {"method": "dflash", "model": "d/flash"}),
    ],
)  # fmt: skip
def test_what_is_unknown_or_unsafe_is_left_out(busy, speculation, named):
    view = shown(busy, BY_LOAD, speculation)
    keys = json.loads(view.speculative_config)
    assert view.complete is (named is not None)
    assert {key: keys[key] for key in keys if not key.startswith("num_")} == (named or {})


def test_the_text_says_what_to_set_and_why(busy):
    assert shown(busy, BY_LOAD).text == (
        "Draft 4 tokens up to 31 running requests and none from 32. The cost is measured on this engine, at 2 to "
        "64 running requests; below them that of the lowest counts."
    )


def test_no_speculation_has_no_flag(busy):
    band = LoadBand(1, 64, 0, 1.0, 0.0, 4, 0.8)
    view = shown(busy, SpeculationSetting(0, bands=(band,), is_change=True))
    assert (view.tokens, view.speculative_config, view.complete) == (0, "", False)
    assert view.text.startswith("Switch speculation off: at no known load")


def test_an_unknown_setting_says_what_to_measure(busy):
    view = shown(busy, UNKNOWN_SETTING, action=Action.MEASURE_COST)
    assert (view.tokens, view.speculative_config, view.schedule, view.bands) == (None, "", (), ())
    assert view.text.startswith("To know it: ")
    assert view.measure == f"For draft tokens by load, measure the cost at several loads. {view.text}"
    assert shown(busy, UNKNOWN_SETTING, action=Action.COLLECT).measure == ""


def test_in_a_pause_of_the_schedule_the_text_has_the_time_of_the_acceptance(busy):
    pause = Pause(8, busy.evaluation.known.wall - 7260.0)
    view = shown(busy, replace(BY_LOAD, pause=pause), action=Action.COLLECT)
    assert view.text.endswith(
        "Nothing is drafted now: the acceptance is that of 12:17:30 UTC, 2 h 1 min ago."
    )
    assert (view.paused_from, view.drafted_time, view.measure) == (8, pause.drafted, "")


def test_in_a_pause_without_any_acceptance_the_text_says_how_to_measure_it(busy):
    view = shown(busy, SpeculationSetting(pause=Pause(8, None)), action=Action.COLLECT)
    assert view.measure == (
        "Acceptance is unknown: from 8 running requests the schedule drafts nothing, and no drafts were seen at "
        "another load. To measure it, let fewer than 8 requests run for some minutes, or schedule 1 token from 8 "
        "on one replica."
    )


def test_the_document_of_a_saved_setting_is_read_again(busy):
    pause = replace(BY_LOAD, pause=Pause(8, 5.0))
    for setting in (BY_LOAD, UNKNOWN_SETTING, pause):
        view = shown(busy, setting)
        assert SettingView.model_validate_json(view.model_dump_json()) == view
