"""What to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.analysis.depth import Depth
from exporter.analysis.estimate import Estimate
from exporter.analysis.recommendation import Action, is_better, recommendation
from exporter.analysis.verdict import Verdict
from exporter.config.policy import DepthPolicy


@pytest.fixture(scope="module", name="advised")
def advised_fixture(make_window):
    """The advice on 1000 drafts of 4 tokens, of which the last is neither wasted nor good."""

    def advised(verdict, positions=(800, 600, 400, 200), *, running=None, draft_tokens=None, **more):
        window = make_window(
            1000,
            1000 * len(positions) if draft_tokens is None else draft_tokens,
            sum(positions),
            positions=positions,
            gauges=(running, None, None),
        )
        known = {"depth": None, "crossover": None, "better_method": False, "policy": DepthPolicy()}
        return recommendation(window, verdict=verdict, **{**known, **more})

    return advised


def depth(tokens):
    return Depth(tokens, 1.5 if tokens else 1.0, extrapolated=False)


def test_nothing_is_advised_on_too_little(advised):
    more = {"depth": depth(0), "crossover": 1.0, "better_method": True, "running": 2.0}
    assert advised(Verdict.INSUFFICIENT, **more) is Action.COLLECT


@pytest.mark.parametrize("verdict", [Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL])
@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(0, Action.DECREASE), (3, Action.DECREASE), (4, Action.KEEP), (5, Action.INCREASE)],
)
def test_it_goes_by_the_recommended_tokens(advised, verdict, tokens, expected):
    assert advised(verdict, depth=depth(tokens)) is expected


def test_what_is_harmful_is_disabled_if_no_depth_pays(advised):
    assert advised(Verdict.HARMFUL, depth=depth(0)) is Action.DISABLE
    assert advised(Verdict.HARMFUL, depth=None) is Action.DISABLE


def test_what_is_harmful_is_not_disabled_if_another_depth_pays(advised):
    # p = .40 .15 .05 .01 at c = .3: one token pays, four are harmful.
    positions = (400, 150, 50, 10)
    assert advised(Verdict.HARMFUL, positions, depth=depth(1)) is Action.DECREASE
    assert advised(Verdict.HARMFUL, positions, depth=depth(5)) is Action.INCREASE


def test_of_the_present_depth_it_is_known_that_it_does_not_pay(advised):
    assert advised(Verdict.HARMFUL, depth=depth(4)) is Action.DISABLE


def test_only_what_is_harmful_is_disabled(advised):
    for verdict in set(Verdict) - {Verdict.HARMFUL}:
        for positions in ((0,), (0, 0), (800, 600, 400, 200)):
            for tokens in (None, 0):
                found = advised(verdict, positions, depth=None if tokens is None else depth(tokens))
                assert found is not Action.DISABLE


def test_fewer_than_one_token_is_not_advised_without_knowing_that_none_is_better(advised):
    assert advised(Verdict.POOR, (200,), depth=depth(0)) is Action.COLLECT
    assert advised(Verdict.POOR, (99,)) is Action.COLLECT


class TestWhereTheCostIsUnknown:
    @pytest.mark.parametrize(
        ("last", "expected"),
        [
            (301, Action.INCREASE),
            (300, Action.KEEP),
            (100, Action.KEEP),
            (99, Action.DECREASE),
            (0, Action.DECREASE),
        ],
    )
    def test_it_goes_by_the_last_position(self, advised, last, expected):
        assert advised(Verdict.MARGINAL, (800, 600, 400, last)) is expected

    def test_more_tokens_are_not_advised_where_they_are_poor(self, advised):
        assert advised(Verdict.POOR, (800, 600, 400, 301)) is Action.KEEP
        assert advised(Verdict.POOR, (800, 600, 400, 99)) is Action.DECREASE

    def test_the_policy_has_the_thresholds(self, advised):
        policy = DepthPolicy(increase_above=0.5, decrease_below=0.4)
        found = [advised(Verdict.HEALTHY, (800, last), policy=policy) for last in (501, 500, 400, 399)]
        assert found == [Action.INCREASE, Action.KEEP, Action.KEEP, Action.DECREASE]

    @pytest.mark.parametrize("positions", [(), (0, 0, 0)])
    def test_where_positions_are_not_told_it_stays(self, make_window, positions):
        window = make_window(1000, 3000, 500, positions=positions)
        known = {"depth": None, "crossover": None, "better_method": False, "policy": DepthPolicy()}
        assert recommendation(window, verdict=Verdict.MARGINAL, **known) is Action.KEEP

    def test_a_position_that_is_hardly_ever_drafted_is_not_wasted(self, advised):
        # Of 3100 tokens, at least 100 were a fourth one; of those, 10 accepted are a tenth.
        assert advised(Verdict.HEALTHY, (800, 600, 400, 10), draft_tokens=3100) is Action.KEEP
        assert advised(Verdict.HEALTHY, (800, 600, 400, 10), draft_tokens=3101) is Action.DECREASE
        assert advised(Verdict.HEALTHY, (800, 600, 400, 0), draft_tokens=3000) is Action.KEEP


class TestLimitBatch:
    @pytest.mark.parametrize("verdict", [Verdict.POOR, Verdict.HARMFUL])
    def test_where_more_run_than_it_pays_for(self, advised, verdict):
        assert advised(verdict, running=16.1, crossover=16.0) is Action.LIMIT_BATCH
        assert advised(verdict, running=16.1, crossover=16.0, depth=depth(0)) is Action.LIMIT_BATCH

    @pytest.mark.parametrize(("running", "crossover"), [(16.0, 16.0), (None, 16.0), (16.1, None)])
    def test_not_where_that_is_not_known(self, advised, running, crossover):
        assert advised(Verdict.HARMFUL, running=running, crossover=crossover) is Action.DISABLE

    def test_not_where_it_pays(self, advised):
        assert advised(Verdict.MARGINAL, running=16.1, crossover=16.0) is Action.KEEP


class TestSwitchMethod:
    @pytest.mark.parametrize("verdict", sorted(set(Verdict) - {Verdict.INSUFFICIENT}))
    def test_a_better_method_outweighs_everything(self, advised, verdict):
        more = {"depth": depth(0), "crossover": 1.0, "running": 2.0}
        assert advised(verdict, better_method=True, **more) is Action.SWITCH_METHOD

    @pytest.mark.parametrize(
        ("lower", "upper", "expected"),
        [(1.31, 1.3, True), (1.3, 1.3, False), (1.0, 0.7, False), (1.01, 0.7, True)],
    )
    def test_it_is_better_beyond_doubt_and_a_gain(self, lower, upper, expected):
        other, this = Estimate(2.0, lower, 3.0, 0.1), Estimate(0.6, 0.5, upper, 0.1)
        assert is_better(other, this) is expected


@given(
    verdict=st.sampled_from(Verdict),
    positions=st.lists(st.integers(0, 1000), max_size=8).map(lambda counts: sorted(counts, reverse=True)),
    tokens=st.none() | st.integers(0, 10),
    crossover=st.none() | st.floats(1, 100),
    running=st.none() | st.floats(0, 100),
)
def test_there_is_always_one_that_the_verdict_allows(advised, verdict, positions, tokens, crossover, running):
    advice = advised(
        verdict,
        positions,
        running=running,
        crossover=crossover,
        depth=None if tokens is None else depth(tokens),
    )
    assert (advice is Action.DISABLE) <= (verdict is Verdict.HARMFUL)
    assert (verdict is Verdict.INSUFFICIENT) <= (advice is Action.COLLECT)
    assert (advice is Action.KEEP) <= (verdict is not Verdict.HARMFUL)
    assert (advice is Action.DECREASE) <= (len(positions) > 1)
