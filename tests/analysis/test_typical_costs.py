"""Typical costs of methods."""

from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.typical_costs import _METHOD_COSTS, method_cost, undrafted_steps_are_plain


@pytest.mark.parametrize(
    ("alias", "name"),
    [("[ngram]", "ngram"), ("deepseek_mtp", "mtp"), ("qwen3_next_mtp", "mtp"), ("EAGLE3", "eagle3")],
)
def test_older_names_are_known(alias, name):
    assert method_cost(alias) == method_cost(name) is not None


@pytest.mark.parametrize(
    "method", ["", "draft_model", "custom_class", "extract_hidden_states", "mtpx", "a_new_method"]
)
def test_other_methods_have_no_typical_cost(method):
    assert method_cost(method) is None


@pytest.mark.parametrize("method", _METHOD_COSTS)
def test_every_figure_is_one_of_a_drafter_that_can_pay(method):
    # With four tokens, two of them accepted, all of them are faster than no speculation.
    cost = method_cost(method)
    assert cost.draft_cost_ratio > 0
    assert cost.fixed_cost_ratio >= 0
    assert 3 / (1 + cost.fixed_cost_ratio + 4 * cost.draft_cost_ratio) > 1.5


def test_a_drafter_with_weights_costs_more_than_a_search():
    assert method_cost("eagle").draft_cost_ratio > method_cost("eagle3").draft_cost_ratio
    assert method_cost("eagle3").draft_cost_ratio > method_cost("ngram").draft_cost_ratio


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
    assert method_cost("dflash").fixed_tokens == pytest.approx(0.20 / 0.03)
