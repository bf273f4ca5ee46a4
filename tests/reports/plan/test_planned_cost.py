"""Cost of a draft token by the bytes read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.typical_costs import drafter_cost
from spec_decode_exporter.reports.plan.draft_method import (
    METHODS,
    SEARCHES,
    STARTING_COST_RATIO,
    VERIFY_COST_RATIO,
    fixed_cost_ratio,
)
from spec_decode_exporter.reports.plan.planned_cost import CostBasis
from tests.reports.plan.conftest import LLAMA_8B, planned

MIXTRAL = {**LLAMA_8B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def ratio(*words):
    found = planned(*words)
    return found.costs.at(found.wanted.tokens).token


def test_a_cost_by_weights_is_their_ratio_plus_verifying():
    found = planned("--target", "70B", "--draft", "8B", "--draft.dtype", "int8")
    assert found.costs.basis is CostBasis.ESTIMATED_BY_WEIGHTS
    assert ratio("--target", "70B", "--draft", "8B") == pytest.approx(8 / 70 + 0.03)
    assert ratio("--target", "70B", "--draft", "8B", "--draft.dtype", "int8") == pytest.approx(4 / 70 + 0.03)


def test_the_cache_is_read_too(llamas):
    """32 sequences of 8192 tokens: 448 KiB for the draft's 128; the output matrix instead of the embedding."""
    found = planned(*llamas)
    draft, target = (
        2 * (part.model.parameters.total - part.model.parameters.embedding)
        for part in (found.wanted.draft, found.wanted.target)
    )
    tokens = found.costs.reading.batch * 8192
    expected = (draft + 128 * 1024 * tokens) / (target + 320 * 1024 * tokens) + 0.03
    assert found.costs.basis is CostBasis.ESTIMATED
    assert found.costs.at(4).token == pytest.approx(expected)


def test_a_step_reads_no_more_sequences_than_fit(llamas):
    found = planned(*llamas, "--batch", "100000")
    assert found.costs.reading.batch == found.drafting.sequences < 100_000


def test_verifying_reads_more_experts_of_a_mixture(folder):
    """One token uses 2 of 8 experts; the five tokens of a step use 1 - 0.75^5 of them."""
    target = folder("m", MIXTRAL)
    found = planned("--target", target, "--method", "ngram", "--batch", "1", "--context", "1")
    own, reading = found.wanted.target.model.parameters, found.costs.reading
    more = own.experts * 2 * ((1 - 0.75**5) - 0.25)
    assert reading.expert_bytes(4) == pytest.approx(more)
    assert found.costs.at(4).token == pytest.approx(more / reading.plain_bytes / 4 + 0.03)
    assert found.costs.at(1).token > found.costs.at(8).token


def test_a_given_cost_overrides_the_estimate():
    words = ("--target", "70B", "--draft", "8B", "--cost.draft-cost-ratio", "0.2")
    found = planned(*words)
    assert (found.costs.basis, ratio(*words)) == (CostBasis.GIVEN, 0.2)


@pytest.mark.parametrize("method", METHODS)
def test_a_draft_has_the_typical_fixed_cost_of_its_method(method):
    usual = drafter_cost(method)
    assert fixed_cost_ratio(method) == (usual.step.guess if usual else STARTING_COST_RATIO)


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_has_the_typical_cost_and_takes_no_memory(method):
    found = planned("--target", "8B", "--method", method)
    assert found.costs.at(4).token == VERIFY_COST_RATIO
    assert drafter_cost(method).token.guess == 0
    assert found.drafting == found.alone
    assert found.draft_ratio is None


@given(st.integers(10**6, 10**12), st.integers(10**6, 10**12), st.integers(1, 4096))
def test_a_larger_draft_is_never_cheaper(one, other, batch):
    less, more = (
        ratio("--target", "1T", "--draft", str(size), "--batch", str(batch)) for size in sorted((one, other))
    )
    assert less <= more
