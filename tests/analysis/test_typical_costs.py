"""Typical costs: of drafters by method, and of verifying by architecture and load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.typical_costs import (
    _DRAFTERS,
    drafter_cost,
    drafting,
    fixed_tokens,
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
        # r = 4: one token reaches 1/4 of the experts, five reach 1 - .75^5 = .763, 3.05 times as many. The
        # experts are a tenth of the step: (1 - .1 + .1·3.05 - 1)/4 = .0513, a quarter of it for long contexts.
        assert verifying(MIXTURE, 1, 4).low == pytest.approx(0.25 * 0.0513, rel=0.01)

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
