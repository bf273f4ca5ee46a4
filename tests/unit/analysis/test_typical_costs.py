"""Typical costs: of drafters by method, and of verifying by architecture and load."""

import pytest

from spec_decode_exporter.analysis.typical_costs import (
    METHODS,
    Range,
    drafter_cost,
    drafting,
    every_step_pays,
    fixed_tokens,
    is_known_method,
    together,
    verifying,
)
from spec_decode_exporter.config.cost_settings import Architecture

DENSE, MIXTURE = Architecture


@pytest.mark.parametrize(
    ("method", "is_known", "cost"),
    [
        # Older names
        ("[ngram]", True, drafter_cost("ngram")),
        ("deepseek_mtp", True, drafter_cost("mtp")),
        ("EAGLE3", True, drafter_cost("eagle3")),
        # Methods without a typical cost
        ("draft_model", True, None),
        ("extract_hidden_states", True, None),
        ("mtpx", False, None),
        ("", False, None),
    ],
)
def test_names_of_methods(method, is_known, cost):
    assert (is_known_method(method), drafter_cost(method)) == (is_known, cost)


@pytest.mark.parametrize("method", [method for method in METHODS if drafter_cost(method)])
def test_every_drafter_has_a_range_and_can_pay(method):
    cost = drafter_cost(method)
    for part in (cost.token, cost.step):
        assert 0 <= part.low <= part.guess <= part.high
    # With four tokens, two of them accepted, it is faster than no speculation at few requests.
    token = cost.token.guess + verifying(DENSE, 1, 4).guess
    assert 3 / (1 + cost.step.guess + 4 * token) > 1.5


def test_a_drafter_may_be_a_larger_part_of_a_mixture_of_experts():
    dense, *others = (drafting(drafter_cost("eagle3"), each).token for each in (DENSE, MIXTURE, None))
    for each in others:
        assert each == pytest.approx((dense.low, dense.guess, 1.5 * dense.high))


@pytest.mark.parametrize(
    ("method", "pays", "tokens"),
    [
        ("ngram", True, 0.10 / 0.02),
        ("suffix", True, 0.10 / 0.02),
        ("medusa", True, 0.10 / 0.06),
        ("eagle3", False, 0.10 / 0.07),
        ("dflash", False, 0.20 / 0.03),
        ("deepseek_mtp", False, 0.10 / 0.07),
        ("draft_model", False, 0),
        ("", False, 0),
    ],
)
def test_steps_that_search_in_vain_pay_the_fixed_cost_too(method, pays, tokens):
    assert every_step_pays(method) is pays
    assert fixed_tokens(method) == pytest.approx(tokens)


def test_upper_distances_are_added_in_quadrature_and_lower_ones_as_they_are():
    # Two draft tokens: distances 2·.06, 2·.06 and .07 above the guess of 2·.3 + .1.
    token, step = together(Range(0.05, 0.1, 0.16), Range(0.1, 0.2, 0.26), Range(0.02, 0.1, 0.17), 2)
    assert token.guess == pytest.approx(0.3)
    assert step.high + 2 * token.high == pytest.approx(0.7 + (2 * 0.12**2 + 0.07**2) ** 0.5)
    assert step.low + 2 * token.low == pytest.approx(0.02 + 2 * 0.15)
    exact = Range(0.1, 0.1, 0.1)
    assert together(Range(0.0, 0.1, 0.3), exact, exact, 4) == (Range(0.1, 0.2, pytest.approx(0.4)), exact)


class TestVerifying:
    @pytest.mark.parametrize(
        ("architecture", "load", "part", "least", "most"),
        [
            (DENSE, 1, "high", 0.0, 0.05),  # nearly free for few requests of a dense model
            (DENSE, 128, "high", 1.0, 1.0),  # an A100 reaches 117 operations a byte
            (DENSE, 400, "low", 0.1, 1.0),
            (MIXTURE, 1, "high", 0.5, 1.0),  # a mixture costs most for few requests
            (MIXTURE, 1, "low", 0.001, 0.03),
            (MIXTURE, 1, "guess", 0.2, 0.5),
            (MIXTURE, 64, "guess", 0.0, 0.1),  # and less for many requests
        ],
    )
    def test_it_depends_on_architecture_and_load(self, architecture, load, part, least, most):
        assert least <= getattr(verifying(architecture, load, 4), part) <= most

    def test_two_of_eight_experts_by_hand(self):
        # r = 4: one token reaches 1/4 of the experts; four more that share half of theirs are as two, and three
        # reach 1 - .75^3 = .578, 2.31 times as many. The experts are a tenth of the step, so a token costs
        # .1·1.31/4 = .0328, a quarter of it for long contexts.
        assert verifying(MIXTURE, 1, 4, 4.0).low == pytest.approx(0.25 * 0.0328, rel=0.01)

    @pytest.mark.parametrize("load", [1, 8, 64, 256])
    def test_known_experts_narrow_the_range_and_an_unknown_architecture_means_either(self, load):
        either, dense, mixture = (verifying(each, load, 4) for each in (None, DENSE, MIXTURE))
        assert either == (min(dense.low, mixture.low), dense.guess, max(dense.high, mixture.high))
        for ratio in (4.0, 8.0, 16.0, 32.0, 48.0):
            named = verifying(MIXTURE, load, 4, ratio)
            assert mixture.low <= named.low <= named.guess <= named.high <= mixture.high

    @pytest.mark.parametrize("ratio", [8.0, 16.0])
    def test_a_production_mixture_verifies_three_tokens_in_a_quarter_more_time(self, ratio):
        # Cohere, 2026: 1.25 times at one request, with an eighth to a sixteenth of the experts active.
        low, _, high = verifying(MIXTURE, 1, 3, ratio)
        assert 1 + 3 * low < 1.25 < 1 + 3 * high
