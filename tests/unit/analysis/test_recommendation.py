"""Recommended action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.depth import Depth, depths, present_depth, recommended
from spec_decode_exporter.analysis.recommendation import Action, is_better, recommendation
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.policy import DepthPolicy
from spec_decode_exporter.figures.estimate import Estimate

TOLERANCE = 0.03


def at(draft_cost_ratio, fixed_cost_ratio=0.0):
    return Cost(draft_cost_ratio, fixed_cost_ratio, CostSource.CONFIGURED, None)


def depth(tokens):
    return Depth(tokens, 1.5 if tokens else 1.0, extrapolated=False)


@pytest.fixture(scope="module", name="advised")
def advised_fixture(make_window):
    """The advice on 1000 drafts of 4 tokens, of which the last is neither wasted nor good.

    Where the cost is given, the depth is what is recommended by it.
    """

    def advised(verdict, positions=(800, 600, 400, 200), *, running=None, draft_tokens=None, **more):
        window = make_window(
            1000,
            1000 * len(positions) if draft_tokens is None else draft_tokens,
            sum(positions),
            positions=positions,
            gauges=(running, None, None),
            **{name: more.pop(name) for name in ("first_tokens", "increments") if name in more},
        )
        cost = more.get("cost")
        best = None if cost is None else recommended(window, cost, depths(window, cost), TOLERANCE)
        known = {
            "length": None,
            "cost": cost,
            "depth": best,
            "crossover": None,
            "better_method": False,
            "policy": DepthPolicy(),
        }
        return recommendation(window, verdict=verdict, **{**known, **more})

    return advised


def test_insufficient_data_have_no_advice(advised):
    more = {"cost": at(1.0), "crossover": 1.0, "better_method": True, "running": 2.0}
    assert advised(Verdict.INSUFFICIENT, **more) is Action.COLLECT


class TestByTheRecommendedTokens:
    """S(1) … S(4) at c = .1: 1.636 2.000 2.154 2.143; at .3: 1.385 1.500 1.474 1.364."""

    @pytest.mark.parametrize("verdict", [Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL])
    @pytest.mark.parametrize(
        ("cost", "expected"),
        [(0.3, Action.DECREASE), (0.06, Action.KEEP), (1.0, Action.KEEP)],
    )
    def test_it_changes_if_that_is_faster(self, advised, verdict, cost, expected):
        assert advised(verdict, cost=at(cost)) is expected

    @pytest.mark.parametrize("verdict", [Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL])
    def test_more_where_that_is_faster(self, advised, verdict):
        assert advised(verdict, (900, 850), cost=at(0.05)) is Action.INCREASE

    def test_it_stays_if_fewer_are_equally_fast(self, advised, make_window):
        # S(3) = 2.075 and S(4) = 2.113 at c = .1 and c0 = .02: three are as good, and slower.
        positions = (800, 550, 389, 261)
        window, cost = make_window(1000, 4000, 2000, positions=positions), at(0.1, 0.02)
        best = recommended(window, cost, depths(window, cost), TOLERANCE)
        assert (best.tokens, round(best.speedup, 3)) == (3, 2.075)
        assert round(depths(window, cost)[3].speedup, 3) == 2.113
        assert advised(Verdict.OPTIMAL, positions, cost=cost) is Action.KEEP

    def test_it_stays_if_fewer_are_faster_by_less_than_the_tolerance(self, advised, make_window):
        window, cost = make_window(1000, 4000, 2000, positions=(800, 600, 400, 200)), at(0.1)
        assert recommended(window, cost, depths(window, cost), TOLERANCE).tokens == 3
        assert advised(Verdict.OPTIMAL, cost=cost) is Action.KEEP
        strict = DepthPolicy(tolerance=0.005)
        assert advised(Verdict.OPTIMAL, cost=cost, policy=strict) is Action.DECREASE

    def test_no_speculation_is_advised_by_a_harmful_verdict_alone(self, advised):
        for positions in ((200,), (200, 0), (0, 0, 0)):
            assert advised(Verdict.POOR, positions, cost=at(0.9)) is Action.KEEP
            assert advised(Verdict.HARMFUL, positions, cost=at(0.9)) is Action.DISABLE


class TestWithinAnInterval:
    """S(3) and S(4) of the drafts: 2.154 and 2.143 at c = .1, 1.474 and 1.364 at .3."""

    @staticmethod
    def within(low, guess, high):
        interval = (StepCost(low, 0.0), StepCost(high, 0.0))
        return Cost(guess, 0.0, CostSource.TYPICAL, None, interval)

    def test_a_change_must_be_faster_at_the_lowest_and_at_the_highest_cost(self, advised):
        assert advised(Verdict.HEALTHY, cost=self.within(0.25, 0.3, 0.4)) is Action.DECREASE
        assert advised(Verdict.HEALTHY, cost=self.within(0.05, 0.3, 0.4)) is Action.KEEP
        more = (900, 850)
        assert advised(Verdict.HEALTHY, more, cost=self.within(0.01, 0.05, 0.1)) is Action.INCREASE
        assert advised(Verdict.HEALTHY, more, cost=self.within(0.01, 0.05, 0.8)) is Action.KEEP

    def test_where_it_hurts_another_depth_must_pay_at_both(self, advised):
        positions = (400, 150, 50, 10)
        assert advised(Verdict.HARMFUL, positions, cost=self.within(0.25, 0.3, 0.35)) is Action.DECREASE
        assert advised(Verdict.HARMFUL, positions, cost=self.within(0.25, 0.3, 0.5)) is Action.DISABLE

    def test_an_unclear_verdict_asks_for_the_cost_unless_a_change_is_certain(self, advised):
        assert advised(Verdict.UNCLEAR, cost=self.within(0.0, 0.1, 1.0)) is Action.MEASURE_COST
        assert advised(Verdict.UNCLEAR, cost=self.within(0.25, 0.3, 0.7)) is Action.DECREASE
        assert advised(Verdict.UNCLEAR) is Action.MEASURE_COST


class TestHarmful:
    def test_it_is_disabled_if_no_depth_pays(self, advised):
        assert advised(Verdict.HARMFUL, cost=at(1.0)) is Action.DISABLE
        assert advised(Verdict.HARMFUL) is Action.DISABLE

    def test_it_is_not_disabled_if_another_depth_pays(self, advised):
        # p = .40 .15 .05 .01 at c = .3: one token pays, four are harmful.
        positions = (400, 150, 50, 10)
        assert advised(Verdict.HARMFUL, positions, cost=at(0.3)) is Action.DECREASE
        assert advised(Verdict.HARMFUL, (900, 850), cost=at(0.3), depth=depth(3)) is Action.INCREASE

    def test_any_depth_that_pays_is_better(self, advised):
        # S(1) = 1.0 and S(2) = 0.98: within the tolerance.
        positions = (300, 268)
        assert advised(Verdict.HARMFUL, positions, cost=at(0.3)) is Action.DECREASE
        assert advised(Verdict.POOR, positions, cost=at(0.3)) is Action.KEEP

    def test_not_if_the_present_depth_does_not_pay(self, advised):
        assert advised(Verdict.HARMFUL, cost=at(0.1), depth=depth(4)) is Action.DISABLE


class TestWithoutBounds:
    BUSY = {"running": 4.0, "increments": [{"drafts": 33}] * 30}  # noqa: RUF012

    @pytest.mark.parametrize("cost", [at(0.3), at(1.0), None])
    def test_too_few_requests_have_no_advice(self, advised, cost):
        positions, sure = (800, 600, 400, 400), Estimate(3.2, 3.1, 3.3, 0.05)
        # 24 requests, four at a time, are six one after the other.
        few = {**self.BUSY, "first_tokens": 24}
        assert advised(Verdict.MARGINAL, positions, cost=cost, **few) is Action.COLLECT
        assert advised(Verdict.MARGINAL, positions, cost=cost, length=sure, **few) is not Action.COLLECT

    def test_an_engine_that_does_not_count_requests_has_advice(self, advised):
        assert advised(Verdict.MARGINAL, cost=at(0.3), running=4.0) is Action.DECREASE


def test_only_a_harmful_verdict_is_disabled(advised):
    for verdict in set(Verdict) - {Verdict.HARMFUL}:
        for positions in ((0,), (0, 0), (800, 600, 400, 200)):
            for tokens in (None, 0):
                cost = None if tokens is None else at(0.1)
                best = None if tokens is None else depth(tokens)
                found = advised(verdict, positions, cost=cost, depth=best)
                assert found is not Action.DISABLE


@pytest.mark.parametrize("positions", [(), (0, 0, 0), (800, 600, 400, 400), (99,)])
def test_at_an_unknown_cost_it_stays_as_it_is(make_window, positions):
    window = make_window(1000, 3000, 500, positions=positions)
    known = {"length": None, "cost": None, "depth": None, "crossover": None, "better_method": False}
    for verdict in (Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY):
        assert recommendation(window, verdict=verdict, policy=DepthPolicy(), **known) is Action.KEEP


class TestLimitBatch:
    @pytest.mark.parametrize("verdict", [Verdict.POOR, Verdict.HARMFUL])
    def test_above_the_crossover(self, advised, verdict):
        assert advised(verdict, running=16.1, crossover=16.0) is Action.LIMIT_BATCH
        assert advised(verdict, running=16.1, crossover=16.0, cost=at(1.0)) is Action.LIMIT_BATCH

    def test_not_if_another_depth_pays_at_this_load(self, advised):
        positions = (400, 150, 50, 10)
        more = {"running": 16.1, "crossover": 16.0, "cost": at(0.3)}
        assert advised(Verdict.HARMFUL, positions, **more) is Action.DECREASE
        assert advised(Verdict.POOR, positions, **more) is Action.DECREASE

    @pytest.mark.parametrize(("running", "crossover"), [(16.0, 16.0), (None, 16.0), (16.1, None)])
    def test_not_with_an_unknown_crossover(self, advised, running, crossover):
        assert advised(Verdict.HARMFUL, running=running, crossover=crossover) is Action.DISABLE

    def test_not_if_it_pays(self, advised):
        assert advised(Verdict.MARGINAL, running=16.1, crossover=16.0) is Action.KEEP


class TestSwitchMethod:
    @pytest.mark.parametrize("verdict", sorted(set(Verdict) - {Verdict.INSUFFICIENT}))
    def test_a_better_method_precedes_all_other_advice(self, advised, verdict):
        more = {"cost": at(1.0), "crossover": 1.0, "running": 2.0}
        assert advised(verdict, better_method=True, **more) is Action.SWITCH_METHOD

    @pytest.mark.parametrize(
        ("lower", "upper", "expected"),
        [(1.31, 1.3, True), (1.3, 1.3, False), (1.0, 0.7, False), (1.01, 0.7, True)],
    )
    def test_it_is_better_if_significantly_faster_and_a_gain(self, lower, upper, expected):
        other, this = Estimate(2.0, lower, 3.0, 0.1), Estimate(0.6, 0.5, upper, 0.1)
        assert is_better(other, this) is expected


@given(
    verdict=st.sampled_from(Verdict),
    positions=st.lists(st.integers(0, 1000), min_size=1, max_size=8).map(
        lambda counts: sorted(counts, reverse=True)
    ),
    price=st.none() | st.floats(0, 1),
    crossover=st.none() | st.floats(1, 100),
    running=st.none() | st.floats(0, 100),
    kept=st.floats(0.5, 1),
)
def test_advice_contradicts_neither_the_verdict_nor_the_recommended_tokens(
    advised, make_window, verdict, positions, price, crossover, running, kept
):
    steps = {"decode_steps": 1000, "first_tokens": 0}
    steps["generation_tokens"] = round(kept * (1000 + sum(positions)))
    window = make_window(1000, 1000 * len(positions), sum(positions), positions=positions, **steps)
    cost = None if price is None else at(price)
    best = None if cost is None else recommended(window, cost, depths(window, cost), TOLERANCE)
    more = {"cost": cost, "depth": best, "running": running, "crossover": crossover}
    advice = advised(verdict, positions, **more)
    assert (advice is Action.DISABLE) <= (verdict is Verdict.HARMFUL)
    assert (advice is Action.MEASURE_COST) <= (verdict is Verdict.UNCLEAR)
    assert (verdict is Verdict.INSUFFICIENT) <= (advice is Action.COLLECT)
    assert (advice is Action.KEEP) <= (verdict is not Verdict.HARMFUL)
    if best is None:
        assert advice not in (Action.INCREASE, Action.DECREASE)
    elif verdict is not Verdict.INSUFFICIENT:
        now = present_depth(window, cost)
        assert advice is not Action.COLLECT
        assert (advice is Action.INCREASE) <= (best.tokens > now.tokens)
        assert (advice is Action.DECREASE) <= (best.tokens < now.tokens)
        if best.tokens and verdict is not Verdict.HARMFUL and advice in (Action.INCREASE, Action.DECREASE):
            assert best.speedup > now.speedup / (1 - TOLERANCE) * (1 - 1e-9)
