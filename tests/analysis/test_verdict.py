"""The verdict: by speed-up, or by length and acceptance, and when there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.verdict import Verdict, insufficient, verdict
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate

BETTER = [Verdict.HARMFUL, Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL]
"""From bad to good."""


def estimate(value, lower=None, upper=None):
    return Estimate(value, value if lower is None else lower, value if upper is None else upper, 0.0)


def cost_from(source=CostSource.CONFIGURED, running=None):
    return Cost(0.1, 0.0, source, running)


@pytest.fixture(scope="module", name="evaluated")
def evaluated_fixture(make_window):
    """The verdict over 1000 full drafts with the given positions, by whatever else is known."""

    def evaluated(positions=(800, 650, 500, 350), *, running=None, **more):
        window = make_window(
            1000,
            1000 * len(positions),
            sum(positions),
            positions=positions,
            gauges=(running, None, None),
        )
        known = {"length": None, "speedup_value": None, "speedup": None, "cost": None, "policy": Policy()}
        return verdict(window, **{**known, **more})

    return evaluated


class TestWhereTheCostIsKnown:
    @pytest.mark.parametrize(
        ("speedup", "expected"),
        [
            (0.5, Verdict.POOR),
            (1.0999, Verdict.POOR),
            (1.1, Verdict.MARGINAL),
            (1.2999, Verdict.MARGINAL),
            (1.3, Verdict.HEALTHY),
            (1.9999, Verdict.HEALTHY),
            (2.0, Verdict.OPTIMAL),
            (2.8, Verdict.OPTIMAL),
        ],
    )
    def test_it_depends_on_the_speedup(self, evaluated, speedup, expected):
        assert evaluated(speedup_value=speedup, cost=cost_from()) is expected
        assert evaluated(speedup_value=speedup, speedup=estimate(speedup, 0, 3), cost=cost_from()) is expected

    def test_a_long_draft_at_a_low_rate_can_be_optimal(self, evaluated):
        assert evaluated((300, 300, 300), speedup_value=2.8, cost=cost_from()) is Verdict.OPTIMAL

    def test_it_is_harmful_only_if_even_the_upper_bound_is_below_1(self, evaluated):
        assert (
            evaluated(speedup_value=0.8, speedup=estimate(0.8, 0.7, 0.9999), cost=cost_from())
            is Verdict.HARMFUL
        )
        assert evaluated(speedup_value=0.8, speedup=estimate(0.8, 0.7, 1.0), cost=cost_from()) is Verdict.POOR

    def test_without_bounds_it_is_never_harmful(self, evaluated):
        assert evaluated(speedup_value=0.1, cost=cost_from()) is Verdict.POOR

    def test_a_default_cost_is_never_harmful(self, evaluated):
        cost = cost_from(CostSource.TYPICAL)
        assert evaluated(speedup_value=0.8, speedup=estimate(0.8, 0.7, 0.9), cost=cost) is Verdict.POOR
        assert evaluated(speedup_value=2.8, speedup=estimate(2.8, 2.7, 2.9), cost=cost) is Verdict.OPTIMAL

    @pytest.mark.parametrize(
        ("length", "speedup", "expected"),
        [
            (1.1999, 0.9999, Verdict.HARMFUL),
            (1.2, 0.9999, Verdict.POOR),
            # So cheap that even hardly more than a token pays.
            (1.1999, 1.0, Verdict.POOR),
            (None, 0.9999, Verdict.POOR),
            (1.1999, None, Verdict.POOR),
        ],
    )
    def test_except_with_drafts_too_short_to_pay_at_any_cost(self, evaluated, length, speedup, expected):
        more = {
            "length": None if length is None else estimate(1.004, 1.0, length),
            "speedup": None if speedup is None else estimate(0.9, 0.8, speedup),
        }
        assert evaluated((4,), speedup_value=0.9, cost=cost_from(CostSource.TYPICAL), **more) is expected
        elsewhere = cost_from(CostSource.CONFIGURED, 16.0)
        assert evaluated((4,), running=33.0, speedup_value=0.9, cost=elsewhere, **more) is Verdict.POOR

    @pytest.mark.parametrize("source", [CostSource.CONFIGURED, CostSource.MEASURED])
    @pytest.mark.parametrize(
        ("running", "expected"),
        [
            (7.9, Verdict.POOR),
            (8.0, Verdict.HARMFUL),
            (32.0, Verdict.HARMFUL),
            (32.1, Verdict.POOR),
            (None, Verdict.POOR),
        ],
    )
    def test_a_cost_of_another_load_is_never_harmful(self, evaluated, source, running, expected):
        cost = cost_from(source, 16.0)
        found = evaluated(running=running, speedup_value=0.8, speedup=estimate(0.8, 0.7, 0.9), cost=cost)
        assert found is expected

    def test_thresholds_are_those_of_the_policy(self, evaluated):
        policy = Policy.model_validate(
            {"speedup": {"harmful": 1.05, "poor": 1.2, "marginal": 1.5, "healthy": 3}}
        )

        def found(value, upper):
            return evaluated(
                speedup_value=value, speedup=estimate(value, 0, upper), cost=cost_from(), policy=policy
            )

        assert found(1.0, 1.04) is Verdict.HARMFUL
        assert [found(value, 4) for value in (1.19, 1.49, 2.99, 3.0)] == BETTER[1:]

    @given(
        speedups=st.tuples(st.floats(0, 4), st.floats(0, 4)), wide=st.floats(0, 2), has_bounds=st.booleans()
    )
    def test_a_higher_speedup_is_never_worse(self, evaluated, speedups, wide, has_bounds):
        low, high = (
            evaluated(
                speedup_value=value,
                speedup=estimate(value, value - wide, value + wide) if has_bounds else None,
                cost=cost_from(),
            )
            for value in sorted(speedups)
        )
        assert BETTER.index(low) <= BETTER.index(high)


class TestWhereTheCostIsUnknown:
    @pytest.mark.parametrize(
        ("positions", "expected"),
        [
            # K = 1: length = 1 + pooled; healthy from 1.5, optimal above 1.7
            ((299,), Verdict.POOR),
            ((399,), Verdict.POOR),
            ((400,), Verdict.MARGINAL),
            ((599,), Verdict.MARGINAL),
            ((600,), Verdict.HEALTHY),
            ((700,), Verdict.HEALTHY),
            ((701,), Verdict.OPTIMAL),
            # K = 2: healthy from 1.5, optimal above 2
            ((600, 360), Verdict.HEALTHY),
            ((702, 298), Verdict.MARGINAL),  # length 2.0, pooled .588
            ((750, 563), Verdict.OPTIMAL),
            ((800, 460), Verdict.HEALTHY),  # length 2.26, pooled .7
            ((800, 461), Verdict.OPTIMAL),
            ((750, 300), Verdict.HEALTHY),  # length 2.05, pooled .6
            ((750, 299), Verdict.MARGINAL),
            # The examples of docs/semantics.md: length 3.30 and 1.61, pooled .780 and .378
            ((800, 650, 500, 350), Verdict.OPTIMAL),
            ((400, 150, 50, 10), Verdict.POOR),
            # Long enough, but each token less likely than not
            ((500, 250, 125, 62), Verdict.MARGINAL),
            # Only the first of four tokens is ever good: pooled .44
            ((800, 0, 0, 0), Verdict.MARGINAL),
        ],
    )
    def test_it_depends_on_length_and_pooled_acceptance(self, evaluated, positions, expected):
        assert evaluated(positions) is expected
        assert evaluated(positions, length=estimate(1 + sum(positions) / 1000)) is expected

    @pytest.mark.parametrize(
        ("positions", "expected"),
        [
            # 1.5 is the bar of every draft, since 1 + .5 K is that at K = 1
            ((500, 0), Verdict.HEALTHY),
            ((499, 0), Verdict.MARGINAL),
            # 2 is the bar from K = 2 on
            ((900, 100), Verdict.HEALTHY),
            ((900, 101), Verdict.OPTIMAL),
        ],
    )
    def test_the_length_has_an_edge_of_its_own(self, evaluated, positions, expected):
        policy = Policy.model_validate(
            {"acceptance": {"poor_ratio": 0.0, "healthy_ratio": 0.0, "optimal_ratio": 0.0}}
        )
        assert evaluated(positions, policy=policy) is expected

    def test_the_required_length_is_lower_for_short_drafts(self, evaluated):
        policy = Policy.model_validate(
            {"acceptance": {"healthy_length": 2.5, "optimal_length": 3.0, "healthy_length_per_token": 0.6}}
        )
        assert evaluated((701,), policy=policy) is Verdict.OPTIMAL
        assert evaluated((600,), policy=policy) is Verdict.HEALTHY
        assert evaluated((620, 600, 0, 0), policy=policy) is Verdict.MARGINAL

    def test_a_length_below_1_3_is_poor_however_good_the_drafter(self, make_window):
        # 99 of 100 tokens are accepted, and every fourth draft has one at all.
        window = make_window(1000, 302, 299, positions=(299, 0))
        policy = Policy()
        known = {"length": None, "speedup_value": None, "speedup": None, "cost": None, "policy": policy}
        assert verdict(window, **known) is Verdict.POOR

    def test_it_is_harmful_only_if_even_the_upper_bound_of_the_length_is_below_1_2(self, evaluated):
        assert evaluated((100,), length=estimate(1.1, 1.0, 1.1999)) is Verdict.HARMFUL
        assert evaluated((100,), length=estimate(1.1, 1.0, 1.2)) is Verdict.POOR
        assert evaluated((100,)) is Verdict.POOR

    def test_a_speedup_without_a_value_leaves_length_and_acceptance(self, evaluated):
        assert evaluated((600,), cost=cost_from()) is Verdict.HEALTHY

    @pytest.mark.parametrize(
        ("accepted", "expected"),
        [(299, Verdict.POOR), (300, Verdict.MARGINAL), (500, Verdict.HEALTHY), (1001, Verdict.OPTIMAL)],
    )
    @pytest.mark.parametrize("positions", [(), (0, 0)])
    def test_without_positions_the_length_decides(self, make_window, accepted, expected, positions):
        window = make_window(1000, 2000, accepted, positions=positions)
        known = {"length": None, "speedup_value": None, "speedup": None, "cost": None, "policy": Policy()}
        assert verdict(window, **known) is expected

    @given(
        lengths=st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
        wide=st.floats(0, 0.2),
        tokens=st.integers(1, 6),
    )
    def test_more_at_every_position_is_never_worse(self, evaluated, lengths, wide, tokens):
        low, high = (
            evaluated(
                positions := [first // 2**place for place in range(tokens)],
                length=estimate(value := 1 + sum(positions) / 1000, value - wide, value + wide),
            )
            for first in sorted(lengths)
        )
        assert BETTER.index(low) <= BETTER.index(high)


class TestInsufficient:
    @pytest.fixture(name="says_too_little")
    def says_too_little_fixture(self, make_window):
        def says_too_little(drafts=1000, length=None, **more):
            return insufficient(make_window(drafts, 4000, 2000, **more), length=length, policy=Policy())

        return says_too_little

    def test_too_few_drafts(self, says_too_little):
        assert says_too_little(99)
        assert says_too_little(None)
        assert not says_too_little(100)

    def test_without_drafts_there_is_none_at_any_threshold(self, make_window):
        assert insufficient(make_window(0, 0, 0), length=None, policy=Policy(min_drafts=1))
        assert not insufficient(make_window(1, 4, 2), length=None, policy=Policy(min_drafts=1))

    def test_a_partial_window(self, says_too_little):
        assert says_too_little(length=None, seconds=14.9)
        assert not says_too_little(length=None, seconds=15.0)

    @pytest.mark.parametrize(("lower", "upper"), [(1.5, 2.1), (1.9, 2.5)])
    def test_bounds_may_be_a_quarter_of_the_length_away_and_no_farther(self, says_too_little, lower, upper):
        assert not says_too_little(length=Estimate(2.0, lower, upper, 0.2))
        assert says_too_little(length=Estimate(2.0, lower - 0.001, upper + 0.001, 0.2))

    def test_a_clipped_bound_does_not_narrow_it(self, says_too_little):
        assert says_too_little(length=Estimate(1.1, 1.0, 1.4, 0.15))

    @pytest.mark.parametrize(
        ("began", "running", "expected"),
        [(0, 1.0, True), (1, 0.0, True), (7, 4.0, True), (8, 4.0, False), (2, 0.5, False)],
    )
    def test_next_to_no_requests(self, says_too_little, began, running, expected):
        of = {
            "first_tokens": began,
            "gauges": (running, None, None),
            "increments": [{"drafts": 33}] * 30,
        }
        assert says_too_little(**of) is expected
        assert not says_too_little(length=Estimate(2.0, 1.9, 2.1, 0.05), **of)

    @pytest.mark.parametrize("unknown", [{"first_tokens": None}, {"gauges": (None, None, None)}])
    def test_unknown_requests_may_be_many(self, says_too_little, unknown):
        of = {"first_tokens": 0, "gauges": (1.0, None, None), "increments": [{"drafts": 33}] * 30}
        assert not says_too_little(**{**of, **unknown})

    def test_then_there_is_no_verdict(self, make_window):
        known = {"length": None, "speedup_value": 2.5, "speedup": None, "policy": Policy()}
        window = make_window(99, 99, 99, positions=(99,))
        assert verdict(window, cost=cost_from(), **known) is Verdict.INSUFFICIENT
        assert verdict(window, cost=None, **known) is Verdict.INSUFFICIENT

    def test_without_counters_there_is_none_either(self, make_window):
        known = {"length": None, "speedup_value": None, "speedup": None, "policy": Policy()}
        assert verdict(make_window(), cost=None, **known) is Verdict.INSUFFICIENT
