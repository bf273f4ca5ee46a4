from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.config.redact import redacted
from exporter.config.reference_settings import ReferenceSettings

RATIOS = st.floats(0, 1)
TOKENS = st.integers(1, 128)


@given(RATIOS, TOKENS)
def test_an_engine_is_held_against_a_rate_of_its_own_number_of_tokens(ratio, tokens):
    assert ReferenceSettings(acceptance_ratio=ratio, tokens=tokens).at(tokens) == ratio


@given(RATIOS, TOKENS, TOKENS)
def test_an_engine_that_drafts_another_number_is_held_against_nothing(ratio, tokens, more):
    assert ReferenceSettings(acceptance_ratio=ratio, tokens=tokens).at(tokens + more) is None


@given(RATIOS, TOKENS)
def test_where_either_number_is_unknown_the_rate_holds(ratio, tokens):
    assert ReferenceSettings(acceptance_ratio=ratio).at(tokens) == ratio
    assert ReferenceSettings(acceptance_ratio=ratio, tokens=tokens).at(0) == ratio


def test_the_general_reference_and_a_targets_own_stand_beside_each_other(read):
    text = "reference: {acceptance_ratio: 0.7}\ntargets: [{url: http://a, reference: {acceptance_ratio: 0.8, tokens: 4}}]"
    config = read(text)
    assert config.reference == ReferenceSettings(acceptance_ratio=0.7)
    assert config.targets[0].reference == ReferenceSettings(acceptance_ratio=0.8, tokens=4)
    assert read(redacted(config)) == config


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("{}", ".acceptance_ratio is missing"),
        ("{acceptance_ratio: 72}", ".acceptance_ratio must be at most 1"),
        ("{acceptance_ratio: -0.1}", ".acceptance_ratio must be at least 0"),
        ("{acceptance_ratio: nan}", ".acceptance_ratio must be at most 1"),
        ("{acceptance_ratio: high}", ".acceptance_ratio must be a number, not 'high'"),
        ("{acceptance_ratio: 0.7, tokens: 0}", ".tokens must be at least 1"),
        ("{acceptance: 0.7}", ".acceptance_ratio is missing"),
        ("0.7", " must be a mapping of keys to values, not '0.7'"),
    ],
)
def test_what_is_no_reference_is_refused(mistakes, keys, told):
    assert mistakes(f"targets: [{{url: http://a, reference: {keys}}}]")[0] == f"1: targets[0].reference{told}"
