"""Recommended action by one window."""

import pytest

from spec_decode_exporter.analysis.end_to_end import EndToEnd, EndToEndBasis
from spec_decode_exporter.analysis.knowledge import FasterMethod, Knowledge
from spec_decode_exporter.analysis.verdict import Action, Verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.policy import DepthPolicy, Policy
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.figures.estimate import Estimate
from tests.fakes.costs import make_cost
from tests.fakes.windows import window

TOLERANCE = DepthPolicy().tolerance
PAYS = (Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL)
USUAL, POOR, MORE = (800, 600, 400, 200), (400, 150, 50, 10), (900, 850)
"""S(1) … S(4) of the usual drafts at c = .1: 1.636 2.000 2.154 2.143; at .3: 1.385 1.500 1.474 1.364."""
ESTIMATE = Estimate(3.0, 2.0, 4.0, 0.1)
FASTER = FasterMethod("experiment", "arm", "mtp", ESTIMATE, ESTIMATE)


def evaluated(
    verdict,
    positions=USUAL,
    *,
    cost=None,
    running=None,
    length=None,
    tolerance=TOLERANCE,
    faster=None,
    **more,
):
    policy = Policy(depth=DepthPolicy(tolerance=tolerance))
    its = WindowEvaluation(
        window(1000, 1000 * len(positions), sum(positions), positions=positions, gauges=(running,), **more),
        Knowledge(policy=policy, faster_method=faster),
    )
    its.verdict, its.cost, its.acceptance_length_bounds = verdict, cost, length
    return its


class TestByTheRecommendedTokens:
    @pytest.mark.parametrize("verdict", PAYS)
    @pytest.mark.parametrize(
        ("positions", "cost", "tolerance", "expected"),
        [
            (USUAL, make_cost(0.3, 0.0), TOLERANCE, Action.DECREASE),
            (USUAL, make_cost(1.0, 0.0), TOLERANCE, Action.KEEP),
            # Three are faster by less than the tolerance.
            (USUAL, make_cost(0.1, 0.0), TOLERANCE, Action.KEEP),
            (USUAL, make_cost(0.1, 0.0), 0.005, Action.DECREASE),
            (MORE, make_cost(0.05, 0.0), TOLERANCE, Action.INCREASE),
            # Three are as good, and slower: 2.075, 2.113
            ((800, 550, 389, 261), make_cost(0.1, 0.02), TOLERANCE, Action.KEEP),
            # S(1) = 1.0 and S(2) = 0.98: only a harmful verdict changes.
            ((300, 268), make_cost(0.3, 0.0), TOLERANCE, Action.KEEP),
            ((200,), make_cost(0.9, 0.0), TOLERANCE, Action.KEEP),
        ],
    )
    def test_it_changes_if_that_is_faster(self, verdict, positions, cost, tolerance, expected):
        its = evaluated(verdict, positions, cost=cost, tolerance=tolerance)
        assert its.advice(None).action is expected

    @pytest.mark.parametrize(
        ("verdict", "positions", "cost", "expected"),
        [
            (Verdict.HEALTHY, USUAL, make_cost(0.3, 0.0, low=0.25, high=0.4), Action.DECREASE),
            (Verdict.HEALTHY, USUAL, make_cost(0.3, 0.0, low=0.05, high=0.4), Action.KEEP),
            (Verdict.HEALTHY, MORE, make_cost(0.05, 0.0, low=0.01, high=0.1), Action.INCREASE),
            (Verdict.HEALTHY, MORE, make_cost(0.05, 0.0, low=0.01, high=0.8), Action.KEEP),
            (Verdict.HARMFUL, POOR, make_cost(0.3, 0.0, low=0.25, high=0.35), Action.DECREASE),
            (Verdict.HARMFUL, POOR, make_cost(0.3, 0.0, low=0.25, high=0.5), Action.DISABLE),
            (Verdict.UNCLEAR, USUAL, make_cost(0.1, 0.0, low=0.0, high=1.0), Action.MEASURE_COST),
            (Verdict.UNCLEAR, USUAL, make_cost(0.3, 0.0, low=0.25, high=0.7), Action.DECREASE),
            (Verdict.UNCLEAR, USUAL, None, Action.MEASURE_COST),
        ],
    )
    def test_a_change_must_be_better_at_the_lowest_and_at_the_highest_cost(
        self, verdict, positions, cost, expected
    ):
        assert evaluated(verdict, positions, cost=cost).advice(None).action is expected


class TestCostOfOthers:
    """It says nothing of another number of tokens, nor whether a small gain is worth the drafter's memory."""

    @pytest.mark.parametrize("cost", [make_cost(0.3, 0.0, source=CostSource.TYPICAL), None])
    @pytest.mark.parametrize(
        ("verdict", "expected"),
        [
            (Verdict.POOR, (Action.MEASURE_COST, None)),
            (Verdict.UNCLEAR, (Action.MEASURE_COST, None)),
            (Verdict.MARGINAL, (Action.KEEP, 4)),
            (Verdict.HEALTHY, (Action.KEEP, 4)),
            (Verdict.HARMFUL, (Action.DISABLE, 0)),
        ],
    )
    def test_it_advises_no_other_number_of_tokens(self, cost, verdict, expected):
        assert evaluated(verdict, cost=cost).advice(None) == expected


class TestNearlyDead:
    @pytest.mark.parametrize("verdict", [each for each in Verdict if each is not Verdict.INSUFFICIENT])
    @pytest.mark.parametrize(
        "cost",
        [make_cost(0.0, 0.0), make_cost(0.3, 0.0), make_cost(0.001, 0.0, source=CostSource.TYPICAL), None],
    )
    @pytest.mark.parametrize("positions", [(49, 20), (49,)])
    def test_it_is_switched_off_whatever_it_costs(self, verdict, cost, positions):
        assert evaluated(verdict, positions, cost=cost).advice(None) == (Action.DISABLE, 0)

    def test_from_one_in_twenty_on_it_is_not_dead(self):
        assert not evaluated(Verdict.POOR, (50, 20)).is_dead


@pytest.mark.parametrize(("upper", "expected"), [(0.9, (Action.DISABLE, 0)), (1.1, (Action.KEEP, 4))])
def test_requests_that_are_significantly_slower_than_their_baseline_are_no_reason_to_keep(upper, expected):
    its = evaluated(Verdict.POOR, cost=make_cost(0.1, 0.0))
    its.request = EndToEnd(0.8, EndToEndBasis.BASELINE, Estimate(0.8, 0.7, upper, 0.1))
    assert its.advice(None) == expected


class TestFewRequests:
    # 24 requests, four at a time, are six one after the other.
    FEW = {"running": 4.0, "first_tokens": 24, "increments": [{"drafts": 33}] * 30}  # noqa: RUF012

    @pytest.mark.parametrize("cost", [make_cost(0.3, 0.0), make_cost(1.0, 0.0), None])
    def test_too_few_for_bounds_have_no_advice(self, cost):
        sure = Estimate(3.2, 3.1, 3.3, 0.05)
        few, bounded = (
            evaluated(Verdict.MARGINAL, cost=cost, length=length, **self.FEW) for length in (None, sure)
        )
        assert few.advice(None).action is Action.COLLECT
        assert bounded.advice(None).action is not Action.COLLECT


class TestLimitBatch:
    @pytest.mark.parametrize(
        ("verdict", "running", "crossover", "more", "expected"),
        [
            (Verdict.POOR, 16.1, 16.0, {"cost": make_cost(1.0, 0.0)}, Action.LIMIT_BATCH),
            (Verdict.HARMFUL, 16.1, 16.0, {"cost": make_cost(1.0, 0.0)}, Action.LIMIT_BATCH),
            (Verdict.HARMFUL, 16.0, 16.0, {}, Action.DISABLE),
            (Verdict.HARMFUL, None, 16.0, {}, Action.DISABLE),
            (Verdict.HARMFUL, 16.1, None, {}, Action.DISABLE),
            (Verdict.MARGINAL, 16.1, 16.0, {}, Action.KEEP),
            (Verdict.HARMFUL, 16.1, 16.0, {"positions": POOR, "cost": make_cost(0.3, 0.0)}, Action.DECREASE),
            (Verdict.POOR, 16.1, 16.0, {"positions": POOR, "cost": make_cost(0.3, 0.0)}, Action.DECREASE),
        ],
    )
    def test_above_the_crossover_unless_another_number_pays_there(
        self, verdict, running, crossover, more, expected
    ):
        assert evaluated(verdict, running=running, **more).advice(crossover).action is expected


@pytest.mark.parametrize("verdict", Verdict)
def test_a_faster_method_precedes_all_other_advice(verdict):
    found = evaluated(verdict, cost=make_cost(1.0, 0.0), running=2.0, faster=FASTER).advice(1.0)
    assert found.action is (Action.COLLECT if verdict is Verdict.INSUFFICIENT else Action.SWITCH_METHOD)
