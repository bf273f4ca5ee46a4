from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.evaluation_inputs import Assumptions
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.monitor.evaluator import Evaluator
from tests.fixtures.evaluations import POOR


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
    def test_to_disable_ends_with_its_bad_verdict(self, case, evaluator_at):
        evaluator = evaluator_at(0.7)
        assert evaluator.evaluate(case(POOR), 1000.0).action is Action.DISABLE
        evaluation = evaluator.evaluate(case((1.0, 1.0, 1.0, 1.0)), 1005.0)
        assert (evaluation.verdict, evaluation.action) == (Verdict.MARGINAL, Action.KEEP)


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

    def test_need_a_whole_window_with_a_verdict(self, case, evaluator):
        evaluator.evaluate(case(seconds=60), 1000.0)
        assert evaluator.evaluator.last_drafts is None


class TestSetting:
    LOADS = ((1, 0.1), (8, 0.11), (16, 0.12), (32, 0.14))

    def test_of_another_cost_is_another_one_at_once(self, case, evaluator_at):
        evaluator = evaluator_at(0.1)
        assert not evaluator.evaluate(case(), 1000.0).completed().setting.bands
        loads = [LoadCost(running_requests=load, draft_cost_ratio=cost) for load, cost in self.LOADS]
        evaluator.assumptions = replace(evaluator.assumptions, cost=CostSettings(loads=loads))
        assert evaluator.evaluate(case(), 1001.0).completed().setting.bands
