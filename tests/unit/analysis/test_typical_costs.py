"""Typical costs: of drafters by method, and of verifying by architecture and load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.typical_costs import (
    _DRAFTERS,
    Range,
    drafter_cost,
    drafting,
    fixed_tokens,
    together,
    undrafted_steps_are_plain,
    verifying,
)
from spec_decode_exporter.config.cost_settings import Architecture

DENSE, MIXTURE = Architecture


@pytest.mark.parametrize(
    ("alias", "name"),
    [("[ngram]", "ngram"), ("deepseek_mtp", "mtp"), ("qwen3_next_mtp", "mtp"), ("EAGLE3", "eagle3")],
)
def test_older_names_are_known(alias, name):
    assert drafter_cost(alias) == drafter_cost(name) is not None


@pytest.mark.parametrize(
    "method", ["", "draft_model", "custom_class", "extract_hidden_states", "mtpx", "a_new_method"]
)
def test_other_methods_have_no_typical_cost(method):
    assert drafter_cost(method) is None


def test_every_drafter_has_a_range_and_can_pay():
    # With four tokens, two of them accepted, all of them are faster than no speculation at few requests.
    for method, cost in _DRAFTERS.items():
        for part in (cost.token, cost.step):
            assert 0 <= part.low <= part.guess <= part.high, method
        token = cost.token.guess + verifying(DENSE, 1, 4).guess
        assert 3 / (1 + cost.step.guess + 4 * token) > 1.5, method


def test_a_drafter_with_weights_costs_more_than_a_search():
    assert drafter_cost("eagle").token > drafter_cost("eagle3").token > drafter_cost("ngram").token


def test_a_drafter_may_be_a_larger_part_of_a_mixture_of_experts():
    dense, mixture, unknown = (
        drafting(drafter_cost("eagle3"), each).token.high for each in (DENSE, MIXTURE, None)
    )
    assert mixture == unknown == pytest.approx(1.5 * dense)


class TestTogether:
    def test_upper_distances_are_added_in_quadrature_and_lower_ones_as_they_are(self):
        # Two draft tokens: distances 2·.06, 2·.06 and .07 above the guess of 2·.3 + .1.
        token, step = together(Range(0.05, 0.1, 0.16), Range(0.1, 0.2, 0.26), Range(0.02, 0.1, 0.17), 2)
        assert token.guess == pytest.approx(0.3)
        assert step.high + 2 * token.high == pytest.approx(0.7 + (2 * 0.12**2 + 0.07**2) ** 0.5)
        assert step.low + 2 * token.low == pytest.approx(0.02 + 2 * 0.15)

    def test_a_single_source_of_error_keeps_its_range(self):
        exact = Range(0.1, 0.1, 0.1)
        assert together(Range(0.0, 0.1, 0.3), exact, exact, 4) == (Range(0.1, 0.2, pytest.approx(0.4)), exact)


class TestVerifying:
    def test_it_is_nearly_free_for_few_requests_of_a_dense_model(self):
        assert verifying(DENSE, 1, 4).high < 0.05

    def test_it_may_cost_a_whole_step_for_many(self):
        assert verifying(DENSE, 400, 4).high == 1.0
        assert verifying(DENSE, 400, 4).low > 0.1

    def test_a_mixture_of_experts_costs_most_for_few_requests(self):
        few, many = verifying(MIXTURE, 1, 4), verifying(MIXTURE, 64, 4)
        assert few.high > 0.5
        assert 0 < few.low < 0.03
        assert few.guess > 3 * many.guess

    def test_two_of_eight_experts_by_hand(self):
        # r = 4: one token reaches 1/4 of the experts; four more that share half of theirs are as two, and three
        # reach 1 - .75^3 = .578, 2.31 times as many. The experts are a tenth of the step, so a token costs
        # .1·1.31/4 = .0328, a quarter of it for long contexts.
        assert verifying(MIXTURE, 1, 4).low == pytest.approx(0.25 * 0.0328, rel=0.01)
        assert verifying(MIXTURE, 1, 4, experts_ratio=4.0).low == verifying(MIXTURE, 1, 4).low

    def test_known_experts_narrow_the_range(self):
        for load in (1, 8, 64, 256):
            any_of_them = verifying(MIXTURE, load, 4)
            for ratio in (4.0, 8.0, 16.0, 32.0, 48.0):
                named = verifying(MIXTURE, load, 4, ratio)
                assert any_of_them.low <= named.low <= named.guess <= named.high <= any_of_them.high

    def test_a_production_mixture_verifies_three_tokens_in_a_quarter_more_time(self):
        # Cohere, 2026: 1.25 times at one request, with an eighth to a sixteenth of the experts active.
        for ratio in (8.0, 16.0):
            low, _, high = verifying(MIXTURE, 1, 3, ratio)
            assert 1 + 3 * low < 1.25 < 1 + 3 * high

    def test_a_sharp_ridge_is_within_the_range(self):
        # An A100 reaches 117 operations a byte: with 128 requests every token costs as much as a plain one.
        assert verifying(DENSE, 128, 4).high == 1.0

    def test_an_unknown_architecture_means_either(self):
        for load in (1, 8, 64, 256):
            either, dense, mixture = (verifying(each, load, 4) for each in (None, DENSE, MIXTURE))
            assert either.low == min(dense.low, mixture.low)
            assert either.high == max(dense.high, mixture.high)

    @given(
        architecture=st.sampled_from([None, *Architecture]),
        running=st.floats(0, 5000),
        tokens=st.floats(0, 128),
    )
    def test_it_is_a_range_between_nothing_and_a_step(self, architecture, running, tokens):
        low, guess, high = verifying(architecture, running, tokens)
        assert 0 <= low <= guess <= high + 1e-9
        assert high <= 1

    @given(loads=st.tuples(st.floats(1, 1000), st.floats(1, 1000)), tokens=st.floats(1, 16))
    def test_a_token_of_a_dense_model_never_becomes_cheaper_under_load(self, loads, tokens):
        few, many = (verifying(DENSE, load, tokens) for load in sorted(loads))
        assert few.guess <= many.guess + 1e-9
        assert few.high <= many.high + 1e-9


@pytest.mark.parametrize(
    ("method", "expected"),
    [("ngram", False), ("ngram_gpu", False), ("suffix", False), ("medusa", False), ("eagle3", True)],
)
def test_a_step_with_a_vain_search_is_not_plain(method, expected):
    assert undrafted_steps_are_plain(method) is expected


@pytest.mark.parametrize("method", ["", "draft_model", "dflash", "deepseek_mtp"])
def test_a_drafter_that_does_not_run_costs_nothing(method):
    assert undrafted_steps_are_plain(method)


def test_the_fixed_cost_in_draft_tokens():
    assert fixed_tokens("dflash") == pytest.approx(0.20 / 0.03)
    assert fixed_tokens("draft_model") == 0
