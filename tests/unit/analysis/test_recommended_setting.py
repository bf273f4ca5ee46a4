"""Recommended setting: by load with a cost at several loads, else the advice as a number of tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.evaluation import evaluate
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions, LastDrafts
from spec_decode_exporter.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_setting import (
    UNKNOWN_SETTING,
    Obstacle,
    Pause,
    SpeculationSetting,
)
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.figures.estimate import Estimate
from tests.fixtures.evaluations import POOR


def by_load(*pairs):
    """Return measured costs, of pairs of load and c."""
    return tuple(
        MeasuredCost(load, cost, 0.98 * cost, 1.02 * cost, CostSource.MEASURED) for load, cost in pairs
    )


RISING = by_load((1, 0.1), (16, 0.12), (64, 0.9))


def evaluated(case, *, cost=None, method="eagle3", schedule=NO_SCHEDULE, **inputs):
    speculation = Speculation(method, "configured", schedule=schedule)
    return evaluate(case.windows, replace(case.inputs, assumptions=Assumptions(speculation, cost), **inputs))


def setting(case, **more):
    return evaluated(case, **more).setting


def configured(cost):
    return CostSettings(draft_cost_ratio=cost, running_requests=4)


def test_a_cost_at_several_loads_gives_a_schedule(case):
    found = setting(case(costs=RISING))
    assert (found.tokens, found.is_change) == (4, True)
    assert found.schedule == BatchSchedule((1, 32), (4, 0))
    assert (found.source, found.known) == (CostSource.MEASURED, (1, 64))


def test_more_tokens_than_now_are_scheduled_only_with_the_advice_to_increase(case):
    cheap = by_load((1, 0.01), (16, 0.02), (64, 0.9))
    evaluation = evaluated(case(costs=cheap))
    assert evaluation.action is Action.INCREASE
    assert evaluation.setting.tokens == evaluation.recommended.tokens > 4
    kept = evaluated(case(costs=RISING))
    assert kept.action is Action.KEEP
    assert kept.setting.tokens == 4


def test_the_schedule_in_force_is_kept_if_it_suffices(case):
    found = setting(case(costs=RISING), schedule=BatchSchedule((1, 32), (4, 0)))
    assert (found.tokens, found.is_change) == (4, False)
    assert found.schedule == BatchSchedule((1, 32), (4, 0))


def test_a_cost_at_one_load_gives_the_advice_as_a_number(case):
    kept = setting(case(), cost=configured(0.1))
    assert (kept.tokens, kept.is_change, kept.bands) == (4, False, ())
    fewer = setting(case(POOR), cost=configured(0.1))
    assert (fewer.tokens, fewer.is_change, fewer.schedule) == (1, True, NO_SCHEDULE)


def test_advice_to_disable_is_no_tokens(case):
    evaluation = evaluated(case(POOR), cost=configured(0.6))
    assert evaluation.action is Action.DISABLE
    assert (evaluation.setting.tokens, evaluation.setting.is_change) == (0, True)


@pytest.mark.parametrize("action", [Action.MEASURE_COST, Action.COLLECT])
def test_an_unknown_cost_and_too_little_data_give_no_setting(case, action):
    its = case(POOR, running=64.0) if action is Action.MEASURE_COST else case(drafts=0)
    evaluation = evaluated(its, method="draft_model" if action is Action.MEASURE_COST else "eagle3")
    assert evaluation.action is action
    assert evaluation.setting == UNKNOWN_SETTING


class TestPause:
    """The schedule in force drafts nothing from 8 running requests, and 20 run."""

    SCHEDULE = BatchSchedule((1, 8), (4, 0))

    def setting(self, case, last=None, **inputs):
        paused = case(drafts=0, running=20.0, costs=RISING)
        return setting(paused, schedule=self.SCHEDULE, last_drafts=last, **inputs)

    @staticmethod
    def last(window, changes=0):
        return LastDrafts(window, 1_000.0, changes)

    def test_the_acceptance_of_the_last_drafts_counts(self, case, evaluation_window):
        found = self.setting(case, self.last(evaluation_window()))
        assert found.pause == Pause(8, 1_000.0)
        drafting = setting(case(costs=RISING), schedule=self.SCHEDULE)
        assert drafting.bands
        assert found == replace(drafting, pause=found.pause)
        assert [(band.first, band.tokens) for band in found.bands if band.is_improvable] == [(8, 4)]

    def test_without_any_acceptance_there_is_no_setting(self, case):
        assert self.setting(case) == SpeculationSetting(pause=Pause(8, None))

    def test_acceptance_before_a_change_does_not_count(self, case, evaluation_window):
        last = self.last(evaluation_window())
        assert self.setting(case, last, changes=1) == SpeculationSetting(pause=Pause(8, None))

    def test_without_a_cost_by_load_there_is_no_setting(self, case, evaluation_window):
        paused = case(drafts=0, running=20.0)
        found = setting(paused, schedule=self.SCHEDULE, last_drafts=self.last(evaluation_window()))
        assert found == SpeculationSetting(pause=Pause(8, 1_000.0))

    @pytest.mark.parametrize("running", [0.0, 4.0])
    def test_drafts_that_are_missing_at_another_load_are_no_pause(self, case, evaluation_window, running):
        idle = case(drafts=0, running=running, costs=RISING)
        last = self.last(evaluation_window())
        assert setting(idle, schedule=self.SCHEDULE, last_drafts=last) == UNKNOWN_SETTING

    def test_an_engine_that_does_not_speculate_has_none(self, case, evaluation_window):
        assert self.setting(case, self.last(evaluation_window()), speculates=False) == UNKNOWN_SETTING


def test_a_faster_method_has_settings_of_its_own(case):
    faster = FasterMethod("arms", "b", "mtp", Estimate(3.0, 2.9, 3.1, 0.05), Estimate(2.0, 1.9, 2.1, 0.05))
    evaluation = evaluated(case(costs=RISING), faster=faster)
    assert evaluation.action is Action.SWITCH_METHOD
    assert evaluation.setting == UNKNOWN_SETTING


def test_a_cost_that_may_be_much_higher_gives_bands_without_a_setting(case):
    wide = tuple(replace(each, lower=0.2 * each.draft_cost_ratio, upper=1.0) for each in RISING)
    found = setting(case(costs=wide))
    assert found.tokens is None
    assert found.bands


def test_configured_costs_by_load_give_a_schedule_too(case):
    known = ((1, 0.05), (8, 0.12), (16, 0.2), (32, 0.35), (64, 0.7))
    loads = [LoadCost(running_requests=load, draft_cost_ratio=cost) for load, cost in known]
    found = setting(case(), cost=CostSettings(loads=loads))
    assert (found.schedule.tokens[0], found.schedule.tokens[-1]) == (4, 1)
    assert found.source is CostSource.CONFIGURED
    sparse = setting(case(), cost=CostSettings(loads=[loads[0], loads[-1]]))
    assert sparse.tokens is None  # between the two loads the cost is uncertain


@pytest.mark.parametrize(
    ("more", "obstacles"),
    [
        ({}, [Obstacle.PIECEWISE_GRAPHS]),
        ({"method": ""}, [Obstacle.PIECEWISE_GRAPHS]),
        ({"schedule": BatchSchedule((1, 8), (4, 0))}, []),
        ({"method": "suffix"}, [Obstacle.MODEL_RUNNER_V1]),
        ({"data_parallel": True}, [Obstacle.DATA_PARALLEL, Obstacle.PIECEWISE_GRAPHS]),
    ],
)
def test_reasons_for_which_vllm_ignores_a_schedule_are_known(case, more, obstacles):
    found = setting(case(costs=RISING), **more)
    assert found.schedule
    assert list(found.obstacles) == obstacles


def test_without_a_schedule_there_is_nothing_to_ignore(case):
    flat = setting(case(costs=by_load((1, 0.1), (64, 0.1))), data_parallel=True)
    assert (flat.tokens, flat.schedule, flat.obstacles) == (4, NO_SCHEDULE, ())
