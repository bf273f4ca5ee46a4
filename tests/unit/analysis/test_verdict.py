"""The verdict: by the bounds of the speed-up, and when there is none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.verdict import NOT_PAYING, PAYING, Verdict, insufficient, verdict
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate

BETTER = [
    Verdict.HARMFUL,
    Verdict.POOR,
    Verdict.UNCLEAR,
    Verdict.INSUFFICIENT,
    Verdict.MARGINAL,
    Verdict.HEALTHY,
    Verdict.OPTIMAL,
]
"""From bad to good."""


def between(lower, value, upper, at_costs=None, *, is_bounded=True):
    """A speed-up with its bounds; by default its cost is exact."""
    low, high = at_costs or (value, value)
    return SpeedupRange(Estimate(value, lower, upper, 0.0), low, high, is_bounded=is_bounded)


@pytest.fixture(scope="module", name="evaluated")
def evaluated_fixture(make_window):
    """The verdict over 1000 drafts at a speed-up."""

    def evaluated(speedup, *, length=None, is_cost_known=True, policy=None, drafts=1000):
        window = make_window(drafts, 4 * drafts, 2 * drafts, positions=(drafts, drafts, 0, 0))
        return verdict(
            window, length=length, speedup=speedup, is_cost_known=is_cost_known, policy=policy or Policy()
        )

    return evaluated


class TestWhereItPays:
    @pytest.mark.parametrize(
        ("lower", "expected"),
        [
            (1.0, Verdict.MARGINAL),
            (1.2999, Verdict.MARGINAL),
            (1.3, Verdict.HEALTHY),
            (1.9999, Verdict.HEALTHY),
            (2.0, Verdict.OPTIMAL),
            (2.8, Verdict.OPTIMAL),
        ],
    )
    def test_the_lower_bound_says_how_well(self, evaluated, lower, expected):
        assert evaluated(between(lower, 3.0, 3.5)) is expected

    def test_a_gain_below_a_tenth_is_poor_however_sure(self, evaluated):
        assert evaluated(between(1.05, 1.0999, 1.15)) is Verdict.POOR
        assert evaluated(between(1.05, 1.1, 1.15)) is Verdict.MARGINAL

    def test_at_an_unknown_cost_it_is_healthy_at_most(self, evaluated):
        assert evaluated(between(2.5, 3.0, 3.5), is_cost_known=False) is Verdict.HEALTHY
        assert evaluated(between(1.1, 3.0, 3.5), is_cost_known=False) is Verdict.MARGINAL


class TestWhereItHurts:
    def test_even_the_upper_bound_is_below_1(self, evaluated):
        assert evaluated(between(0.7, 0.8, 0.9999)) is Verdict.HARMFUL
        assert evaluated(between(0.7, 0.8, 1.0)) is Verdict.POOR

    def test_not_without_bounds_of_sampling(self, evaluated):
        assert evaluated(between(0.1, 0.2, 0.3, is_bounded=False)) is Verdict.POOR


class TestWhereTheBoundsHold1:
    def test_it_is_unclear_if_the_cost_decides(self, evaluated):
        assert evaluated(between(0.8, 1.4, 1.9, (0.85, 1.8))) is Verdict.UNCLEAR

    def test_it_is_unclear_if_cost_and_sampling_hold_1_only_together(self, evaluated):
        assert evaluated(between(0.9, 2.0, 3.0, (1.02, 2.9))) is Verdict.UNCLEAR

    def test_a_gain_that_more_data_would_decide_is_insufficient(self, evaluated):
        assert evaluated(between(0.9, 1.12, 1.3, (1.05, 1.2))) is Verdict.INSUFFICIENT
        assert evaluated(between(0.59, 1.59, 3.76, (1.54, 1.64))) is Verdict.INSUFFICIENT

    def test_a_small_gain_is_poor_even_if_more_data_would_decide(self, evaluated):
        assert evaluated(between(0.9, 1.0999, 1.3, (1.05, 1.2))) is Verdict.POOR
        assert evaluated(between(0.7, 0.9, 1.1, (0.85, 0.95))) is Verdict.POOR

    def test_it_is_poor_if_the_gain_is_small_at_every_cost(self, evaluated):
        assert evaluated(between(0.95, 1.02, 1.0999, (0.96, 1.09))) is Verdict.POOR
        assert evaluated(between(0.95, 1.02, 1.1, (0.96, 1.09))) is Verdict.UNCLEAR


def test_thresholds_are_those_of_the_policy(evaluated):
    policy = Policy.model_validate({"speedup": {"harmful": 1.05, "poor": 1.2, "marginal": 1.5, "healthy": 3}})
    assert evaluated(between(0.9, 1.0, 1.04), policy=policy) is Verdict.HARMFUL
    assert evaluated(between(1.1, 1.19, 1.3), policy=policy) is Verdict.POOR
    found = [evaluated(between(lower, 4.0, 5.0), policy=policy) for lower in (1.05, 1.49, 1.5, 2.99, 3.0)]
    assert found == [*[Verdict.MARGINAL] * 2, *[Verdict.HEALTHY] * 2, Verdict.OPTIMAL]


@given(
    lower=st.floats(0, 4),
    above=st.floats(0, 2),
    beyond=st.floats(0, 2),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    is_bounded=st.booleans(),
)
def test_it_pays_only_by_the_lower_bound_and_hurts_only_by_the_upper(
    evaluated, lower, above, beyond, shares, is_bounded
):
    value = lower + above
    at_costs = (value - shares[0] * above, value + shares[1] * beyond)
    found = evaluated(between(lower, value, value + beyond, at_costs, is_bounded=is_bounded))
    assert (found in PAYING) <= (lower >= 1)
    assert (found is Verdict.HARMFUL) <= (value + beyond < 1)
    assert (found is Verdict.UNCLEAR) <= (lower < 1 <= value + beyond)
    assert (value + beyond < 1) <= (found in NOT_PAYING)


@given(
    lowers=st.tuples(st.floats(0, 4), st.floats(0, 4)),
    above=st.floats(0, 2),
    beyond=st.floats(0, 2),
)
@example(lowers=(0.0, 1.0), above=0.0, beyond=2.0)
def test_a_higher_speedup_is_never_worse(evaluated, lowers, above, beyond):
    low, high = (evaluated(between(lower, lower + above, lower + above + beyond)) for lower in sorted(lowers))
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

    def test_then_there_is_no_verdict(self, evaluated):
        assert evaluated(between(2.4, 2.5, 2.6), drafts=99) is Verdict.INSUFFICIENT

    def test_without_decode_steps_there_is_none_either(self, evaluated):
        assert evaluated(None) is Verdict.INSUFFICIENT

    def test_without_counters_there_is_none_either(self, make_window):
        window = make_window()
        known = {"length": None, "speedup": between(2.4, 2.5, 2.6), "is_cost_known": True}
        assert verdict(window, policy=Policy(), **known) is Verdict.INSUFFICIENT
