from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.evaluated_window import Change
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.monitor.evaluator import Evaluator
from tests.fixtures.evaluations import GOOD, POOR


class Evaluated:
    """Evaluator with a longest window of 300 s, at a given cost of a draft token."""

    def __init__(self, cost):
        self.evaluator = Evaluator(300.0)
        self.assumptions = Assumptions(
            Speculation("eagle3", "configured"), CostSettings(draft_cost_ratio=cost)
        )

    def evaluate(self, case, now):
        inputs = replace(case.inputs, assumptions=self.assumptions)
        return self.evaluator.evaluate(case.windows, inputs, now)


@pytest.fixture(name="evaluator_at")
def evaluator_at_fixture():
    return Evaluated


class TestAdvice:
    def test_changes_only_after_a_whole_longest_window(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        assert evaluator.evaluate(case(), 1000.0).recommended.tokens == 4
        for moment in (1005.0, 1300.0):
            evaluation = evaluator.evaluate(case(POOR), moment)
            assert (evaluation.recommended.tokens, evaluation.action) == (4, Action.KEEP)
        evaluation = evaluator.evaluate(case(POOR), 1305.0)
        assert (evaluation.recommended.tokens, evaluation.action) == (1, Action.DECREASE)

    def test_is_absent_without_enough_drafts_and_then_returns(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        evaluator.evaluate(case(), 1000.0)
        evaluation = evaluator.evaluate(case(drafts=0, survival=(0.0,) * 4), 1005.0)
        assert (evaluation.action, evaluation.recommended) == (Action.COLLECT, None)
        evaluation = evaluator.evaluate(case(POOR), 1010.0)
        assert (evaluation.action, evaluation.recommended.tokens) == (Action.KEEP, 4)

    def test_begins_again_after_a_whole_window_without_enough_drafts(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        evaluator.evaluate(case(), 1000.0)
        for moment in (1005.0, 1305.0):
            evaluator.evaluate(case(drafts=0, survival=(0.0,) * 4), moment)
        assert evaluator.evaluate(case(POOR), 1310.0).recommended.tokens == 1

    def test_to_disable_ends_with_its_bad_verdict(self, case, evaluator_at):
        evaluator = evaluator_at(0.7)
        assert evaluator.evaluate(case(POOR), 1000.0).action is Action.DISABLE
        evaluation = evaluator.evaluate(case((1.0, 1.0, 1.0, 1.0)), 1005.0)
        assert (evaluation.verdict, evaluation.action) == (Verdict.MARGINAL, Action.KEEP)

    def test_begins_again_at_a_change(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        evaluator.evaluate(case(), 1000.0)
        poor = case(POOR)
        changed = poor._replace(inputs=replace(poor.inputs, changes=1))
        assert evaluator.evaluate(changed, 1005.0).recommended.tokens == 1

    def test_since_a_change_lasts_as_long_as_the_window_that_gave_it(
        self, case, evaluator_at, evaluation_window
    ):
        evaluator = evaluator_at(0.1)

        def since(survival, seconds):
            change = Change(evaluation_window(survival, length=seconds), 0.0)
            usual = case(survival)
            return usual._replace(inputs=replace(usual.inputs, change=change, changes=1))

        assert evaluator.evaluate(since(POOR, 30.0), 1000.0).recommended.tokens == 1
        assert evaluator.evaluate(since((0.80, 0.65, 0.50, 0.35), 40.0), 1010.0).recommended.tokens == 1
        assert evaluator.evaluate(since((0.80, 0.65, 0.50, 0.35), 90.0), 1100.0).recommended.tokens == 4

    def test_begins_again_with_another_longest_window(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        evaluator.evaluate(case(), 1000.0)
        evaluator.evaluator.keep(600.0)
        assert evaluator.evaluate(case(POOR), 1005.0).recommended.tokens == 1


class TestLastDrafts:
    """Drafts whose acceptance counts while a schedule drafts nothing."""

    SCHEDULE = BatchSchedule((1, 8), (4, 0))

    @pytest.fixture(name="evaluator")
    def evaluator_fixture(self, evaluator_at):
        evaluator = evaluator_at(0.1)
        speculation = replace(evaluator.assumptions.speculation, schedule=self.SCHEDULE)
        evaluator.assumptions = replace(evaluator.assumptions, speculation=speculation)
        return evaluator

    def test_are_those_of_the_last_verdict(self, case, evaluator):
        drafting = case()
        inputs = replace(drafting.inputs, wall=500.0)
        evaluator.evaluate(drafting._replace(inputs=inputs), 1000.0)
        evaluator.evaluate(case(drafts=0, running=20.0), 1400.0)
        last = evaluator.evaluator.last_drafts
        assert last.wall == 500.0
        assert last.window.positions == drafting.windows[-1].positions

    def test_are_not_those_of_a_window_that_ends_without_drafts(self, case, evaluator, make_window):
        window = case().windows[-1]
        ended = replace(window, increments=make_window(increments=[{"drafts": 9}] * 299 + [{}]).increments)
        evaluator.evaluate(case()._replace(windows=(ended,)), 1000.0)
        assert evaluator.evaluator.last_drafts is None

    def test_need_a_whole_window_with_a_verdict(self, case, evaluator):
        evaluator.evaluate(case(seconds=60), 1000.0)
        assert evaluator.evaluator.last_drafts is None

    def test_are_not_kept_for_a_schedule_that_always_drafts(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        evaluator.evaluate(case(), 1000.0)
        assert evaluator.evaluator.last_drafts is None


class TestSetting:
    LOADS = ((1, 0.1), (8, 0.11), (16, 0.12), (32, 0.14))

    def test_stays_for_a_while_and_then_follows_acceptance(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        loads = [LoadCost(running_requests=load, draft_cost_ratio=cost) for load, cost in self.LOADS]
        evaluator.assumptions = replace(evaluator.assumptions, cost=CostSettings(loads=loads))
        settings = [
            evaluator.evaluate(case(survival), moment).completed().setting.tokens
            for survival, moment in ((GOOD, 1000.0), (POOR, 1029.0), (POOR, 1030.0))
        ]
        assert settings == [4, 4, 2]

    def test_of_another_cost_is_another_one_at_once(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        assert not evaluator.evaluate(case(), 1000.0).completed().setting.bands
        loads = [LoadCost(running_requests=load, draft_cost_ratio=cost) for load, cost in self.LOADS]
        evaluator.assumptions = replace(evaluator.assumptions, cost=CostSettings(loads=loads))
        assert evaluator.evaluate(case(), 1001.0).completed().setting.bands
