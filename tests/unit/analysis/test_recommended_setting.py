"""Recommended setting: by load with a cost at several loads, else the advice as a number of tokens."""

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.knowledge import Drafting, FasterMethod
from spec_decode_exporter.analysis.recommended_setting import (
    UNKNOWN_SETTING,
    Obstacle,
    Pause,
    SpeculationSetting,
)
from spec_decode_exporter.analysis.verdict import Action
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.figures.estimate import Estimate
from tests.fakes.evaluations import GOOD, POOR, busy_window, curve, evaluation, knowledge

RISING = curve((1, 0.1), (16, 0.12), (64, 0.9), method="eagle3")
UP_TO_48 = BatchSchedule((1, 24, 48), (4, 3, 0))


def evaluated(*curves, survival=GOOD, method="eagle3", drafts=100, running=4.0, **known):
    return evaluation(knowledge(*curves, method=method, **known), survival, drafts=drafts, running=running)


@pytest.mark.parametrize(("present", "is_change"), [(NO_SCHEDULE, True), (UP_TO_48, False)])
def test_a_cost_at_several_loads_gives_a_schedule(present, is_change):
    found = evaluated(RISING, schedule=present).setting
    assert (found.tokens, found.schedule, found.is_change) == (4, UP_TO_48, is_change)
    assert (found.source, found.known) == (CostSource.MEASURED, (1, 64))


@pytest.mark.parametrize(
    ("survival", "cost", "expected"),
    [
        (GOOD, 0.1, SpeculationSetting(4, is_change=False)),
        (POOR, 0.1, SpeculationSetting(1, is_change=True)),
        (POOR, 0.6, SpeculationSetting(0, is_change=True)),
    ],
    ids=["keep", "decrease", "disable"],
)
def test_a_cost_at_one_load_gives_the_advice_as_a_number(survival, cost, expected):
    configured = CostSettings(draft_cost_ratio=cost, running_requests=4)
    assert evaluated(survival=survival, cost=configured).setting == expected


FASTER = FasterMethod("arms", "b", "mtp", Estimate(3.0, 2.9, 3.1, 0.05), Estimate(2.0, 1.9, 2.1, 0.05))


@pytest.mark.parametrize(
    ("curves", "more", "action"),
    [
        ((), {"survival": POOR, "running": 64.0, "method": "draft_model"}, Action.MEASURE_COST),
        ((), {"drafts": 0}, Action.COLLECT),
        ((RISING,), {"faster_method": FASTER}, Action.SWITCH_METHOD),
    ],
)
def test_other_advice_is_no_setting(curves, more, action):
    its = evaluated(*curves, **more)
    assert (its.action, its.setting) == (action, UNKNOWN_SETTING)


class TestPause:
    """The schedule in force drafts nothing from 8 running requests, and 20 run."""

    SCHEDULE = BatchSchedule((1, 8), (4, 0))
    PAUSED = {"drafts": 0, "running": 20.0, "schedule": SCHEDULE}  # noqa: RUF012
    LAST = busy_window(), 1_000.0

    def test_the_acceptance_of_the_last_drafts_counts(self):
        found = evaluated(RISING, **self.PAUSED, last_drafts=self.LAST).setting
        drafting = evaluated(RISING, schedule=self.SCHEDULE).setting
        assert drafting.bands
        assert found == replace(drafting, pause=Pause(8, 1_000.0))
        assert [(band.first, band.tokens) for band in found.bands[1:]] == [(8, 4), (24, 3), (48, 0)]

    @pytest.mark.parametrize(
        ("curves", "more", "expected"),
        [
            ((RISING,), {}, SpeculationSetting(pause=Pause(8, None))),
            ((), {"last_drafts": LAST}, SpeculationSetting(pause=Pause(8, 1_000.0))),
            ((RISING,), {"last_drafts": LAST, "running": 0.0}, UNKNOWN_SETTING),
            ((RISING,), {"last_drafts": LAST, "running": 4.0}, UNKNOWN_SETTING),
            ((RISING,), {"last_drafts": LAST, "drafting": Drafting.OFF}, UNKNOWN_SETTING),
        ],
        ids=["no acceptance", "no cost by load", "idle", "another load", "off"],
    )
    def test_without_acceptance_cost_or_pause_there_is_no_setting(self, curves, more, expected):
        assert evaluated(*curves, **self.PAUSED | more).setting == expected


@pytest.mark.parametrize("method", ["eagle3", "ngram"])
def test_a_drafter_that_is_nearly_dead_is_to_be_switched_off_though_its_cost_is_small_at_every_load(method):
    its = evaluated(curve((1, 0.001), (64, 0.002), method=method), survival=(0.04, 0.01), method=method)
    assert (its.action, its.setting) == (Action.DISABLE, SpeculationSetting(0, is_change=True))


def test_a_cost_that_may_be_much_higher_gives_bands_without_a_setting():
    found = evaluated(curve((1, 0.1), (16, 0.12), (64, 0.9), margin=0.8, method="eagle3")).setting
    assert (found.tokens, found.schedule) == (None, NO_SCHEDULE)
    assert found.bands


@pytest.mark.parametrize(
    ("cost", "more", "obstacles"),
    [
        (RISING, {}, [Obstacle.PIECEWISE_GRAPHS]),
        (RISING, {"method": ""}, [Obstacle.PIECEWISE_GRAPHS]),
        (RISING, {"schedule": BatchSchedule((1, 8), (4, 0))}, []),
        (RISING, {"method": "suffix"}, [Obstacle.MODEL_RUNNER_V1]),
        (RISING, {"data_parallel": True}, [Obstacle.DATA_PARALLEL, Obstacle.PIECEWISE_GRAPHS]),
        # Without a schedule there is nothing to ignore.
        (curve((1, 0.1), (64, 0.1), method="eagle3"), {"data_parallel": True}, []),
    ],
)
def test_reasons_for_which_vllm_ignores_a_schedule_are_known(cost, more, obstacles):
    found = evaluated(cost, **more).setting
    assert (found.tokens, bool(found.schedule)) == (4, cost is RISING)
    assert list(found.obstacles) == obstacles
