from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.active_yaml import active_yaml
from spec_decode_exporter.config.reference_settings import ReferenceSettings


def test_a_target_may_have_a_reference_beside_the_general_one(read):
    text = "reference: {acceptance_ratio: 0.7}\ntargets: [{url: http://a, reference: {acceptance_ratio: 0.8, tokens: 4}}]"
    config = read(text)
    assert config.reference == ReferenceSettings(acceptance_ratio=0.7)
    assert config.targets[0].reference == ReferenceSettings(acceptance_ratio=0.8, tokens=4)
    assert read(active_yaml(config)) == config


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("{}", " has no rate; add `acceptance_ratio`, or the `file` that `observe --save` wrote"),
        (
            "{acceptance_ratio: 0.7, file: a}",
            ".file cannot be set beside `acceptance_ratio`; remove one of the two",
        ),
        ("{file: a, tokens: 4}", ".tokens cannot be set beside `file`, which holds it; remove it"),
        (
            "{acceptance_ratio: 0.7, model_name: a}",
            ".model_name selects a model of a `file`, but no `file` is set; remove it",
        ),
        ("{acceptance_ratio: 72}", ".acceptance_ratio must be at most 1"),
        ("{acceptance_ratio: -0.1}", ".acceptance_ratio must be at least 0"),
        ("{acceptance_ratio: nan}", ".acceptance_ratio must be at most 1"),
        ("{acceptance_ratio: high}", ".acceptance_ratio must be a number, not 'high'"),
        ("{acceptance_ratio: 0.7, tokens: 0}", ".tokens must be at least 1"),
        (
            "{acceptance: 0.7}",
            ".acceptance is not a known key here; did you mean `acceptance_ratio`?",
        ),
        ("0.7", " must be a mapping of keys to values, not '0.7'"),
    ],
)
def test_an_invalid_reference_is_rejected(mistakes, keys, expected):
    assert (
        mistakes(f"targets: [{{url: http://a, reference: {keys}}}]")[0]
        == f"1: targets[0].reference{expected}"
    )


@given(st.floats(0, 1), st.integers(1, 128) | st.none(), st.integers(0, 128))
def test_an_engine_is_compared_unless_it_drafts_another_number_of_tokens(ratio, tokens, drafted):
    """The rate applies too if either number is unknown."""
    is_other = tokens is not None and drafted not in (0, tokens)
    found = ReferenceSettings(acceptance_ratio=ratio, tokens=tokens).at(drafted)
    assert found == (None if is_other else ratio)
