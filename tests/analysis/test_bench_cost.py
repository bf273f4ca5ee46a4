"""Cost of drafting by the results of ``vllm bench forward``."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.bench_cost import (
    LARGEST_SHARE,
    LEAST_SHARE,
    STEP_SECONDS,
    TOKEN_SECONDS,
    bench_costs,
)
from spec_decode_exporter.analysis.cost import CostKnowledge, cost_of
from spec_decode_exporter.analysis.cost_curve import best_curve
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.typical_costs import drafter_cost, fixed_tokens
from spec_decode_exporter.config.bench_results import AddedTime
from spec_decode_exporter.config.cost_settings import CostSettings

RESULTS = Path(__file__).parents[1] / "config" / "bench"
PLAIN = 0.010


def added(tokens, ratio, load=8, context=2000.0, *, with_drafter=True):
    return AddedTime(load, context, tokens, ratio, PLAIN, with_drafter)


def cost(*times, method="eagle3"):
    (found,) = bench_costs(times, method)
    return found


@given(
    token=st.floats(0, 2),
    step=st.floats(0, 2),
    tokens=st.lists(st.integers(1, 32), min_size=2, max_size=5, unique=True),
)
def test_several_numbers_of_tokens_give_the_costs_of_a_token_and_of_a_step(token, step, tokens):
    found = cost(*(added(number, step + token * number) for number in tokens))
    assert found.token.guess == pytest.approx(token, abs=1e-9)
    assert found.step.guess == pytest.approx(step, abs=1e-9)


@given(
    ratio=st.floats(0, 5), tokens=st.integers(1, 32), method=st.sampled_from(["eagle3", "mtp", "dflash", ""])
)
def test_the_typical_fixed_cost_splits_that_of_one_number_of_tokens(ratio, tokens, method):
    found = cost(added(tokens, ratio), method=method)
    assert found.step.guess + tokens * found.token.guess == pytest.approx(ratio)
    assert found.step.guess == pytest.approx(fixed_tokens(method) * found.token.guess)


@given(st.dictionaries(st.integers(1, 32), st.floats(-0.5, 5), min_size=1, max_size=5))
def test_no_cost_is_negative_and_the_guess_is_inside(ratios):
    found = cost(*(added(tokens, ratio) for tokens, ratio in ratios.items()))
    for low, guess, high in (found.token, found.step):
        assert 0 <= low <= guess <= high


def test_steps_that_get_faster_with_more_tokens_cost_a_mean_step():
    found = cost(added(2, 0.3), added(4, 0.2))
    assert (found.token.guess, found.step.guess) == (0.0, pytest.approx(0.25))


def test_the_interval_contains_what_the_results_leave_out():
    token, step = cost(added(2, 0.3), added(4, 0.5)).token, cost(added(2, 0.3), added(4, 0.5)).step
    assert token == pytest.approx((LEAST_SHARE * 0.1, 0.1, LARGEST_SHARE * 0.1 + TOKEN_SECONDS / PLAIN))
    assert step == pytest.approx((LEAST_SHARE * 0.1, 0.1, LARGEST_SHARE * 0.1 + STEP_SECONDS / PLAIN))


def test_the_interval_contains_all_contexts():
    short = [added(2, 0.3, context=500.0), added(4, 0.5, context=500.0)]
    token = cost(*short, added(2, 0.5), added(4, 0.9)).token
    assert token == pytest.approx((LEAST_SHARE * 0.1, 0.15, LARGEST_SHARE * 0.2 + TOKEN_SECONDS / PLAIN))


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_the_typical_drafter_is_added_to_verifying_alone(method):
    found, typical = cost(added(4, 0.2, with_drafter=False), method=method), drafter_cost(method)
    assert found.token.guess == pytest.approx(0.05 + typical.token.guess)
    assert found.step == pytest.approx(typical.step)
    assert found.token.high == pytest.approx(LARGEST_SHARE * 0.05 + typical.token.high * 1.5)


class TestAsASource:
    SETTINGS = CostSettings(bench=RESULTS / "vllm-0.33-eagle3.json")

    def known(self, running, *, settings=SETTINGS, measured=(), method="eagle3"):
        return cost_of(CostKnowledge(settings, measured, method), running, 4.0)

    @pytest.mark.parametrize(("running", "verify"), [(1.0, 0.02 * 33 / 32), (8.0, 0.02 * 40 / 32)])
    def test_it_is_the_cost_at_each_load(self, running, verify):
        found = self.known(running)
        assert found.source is CostSource.IMPORTED
        assert found.draft_cost_ratio == pytest.approx(0.05 + verify, abs=1e-4)
        assert found.fixed_cost_ratio == pytest.approx(0.1, abs=1e-4)

    def test_between_two_loads_it_is_interpolated(self):
        few, between, many = (self.known(load) for load in (1.0, 4.5, 8.0))
        middle = (few.draft_cost_ratio + many.draft_cost_ratio) / 2
        assert between.draft_cost_ratio == pytest.approx(middle)
        assert between.high.fixed_cost_ratio == pytest.approx(
            (few.high.fixed_cost_ratio + many.high.fixed_cost_ratio) / 2
        )

    def test_beyond_twice_the_largest_load_it_is_wider(self):
        near, far = self.known(16.0), self.known(64.0)
        assert far.running_requests == near.running_requests == 8
        assert far.high.draft_cost_ratio > near.high.draft_cost_ratio

    def test_a_cost_measured_at_this_load_precedes_it(self):
        measured = (MeasuredCost(8.0, 0.3, 0.2, 0.4, CostSource.BASELINE),)
        assert self.known(8.0, measured=measured).source is CostSource.BASELINE
        assert self.known(1.0, measured=measured).source is CostSource.IMPORTED

    def test_an_unknown_load_has_the_range_of_all_loads(self):
        found, few, many = (self.known(load) for load in (None, 1.0, 8.0))
        assert found.low.draft_cost_ratio == pytest.approx(few.low.draft_cost_ratio)
        assert found.high.draft_cost_ratio == pytest.approx(
            max(few.high.draft_cost_ratio, many.high.draft_cost_ratio)
        )
        assert found.high.fixed_cost_ratio >= many.high.fixed_cost_ratio

    def test_the_crossover_load_follows_from_it(self):
        curve = best_curve(self.SETTINGS, (), "eagle3")
        assert curve.source is CostSource.IMPORTED
        assert curve.guess(8.0).fixed_cost_ratio == pytest.approx(0.1, abs=1e-4)

    def test_a_draft_model_needs_no_typical_cost(self):
        settings = CostSettings(bench=RESULTS / "vllm-0.33-draft_model.json")
        found = self.known(1.0, settings=settings, method="draft_model")
        assert found.draft_cost_ratio == pytest.approx(0.02 * 33 / 32 + 801 / 8025, abs=1e-4)
        assert found.fixed_cost_ratio == 0.0
        assert found.high.fixed_cost_ratio > 0
