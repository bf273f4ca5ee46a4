from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.redact import redacted
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.reports.reference.reference_file import write
from tests.reports.reference.conftest import references

__all__ = ("references",)

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
        ("{}", " says no rate; add `acceptance_ratio`, or the `file` that `reference save` wrote"),
        (
            "{acceptance_ratio: 0.7, file: a}",
            ".file cannot stand beside `acceptance_ratio`; remove one of the two",
        ),
        ("{file: a, tokens: 4}", ".tokens cannot stand beside `file`, which says it itself; remove it"),
        (
            "{acceptance_ratio: 0.7, model_name: a}",
            ".model_name says which model of a `file`, and there is none; remove it",
        ),
        ("{acceptance_ratio: 72}", ".acceptance_ratio must be at most 1"),
        ("{acceptance_ratio: -0.1}", ".acceptance_ratio must be at least 0"),
        ("{acceptance_ratio: nan}", ".acceptance_ratio must be at most 1"),
        ("{acceptance_ratio: high}", ".acceptance_ratio must be a number, not 'high'"),
        ("{acceptance_ratio: 0.7, tokens: 0}", ".tokens must be at least 1"),
        (
            "{acceptance: 0.7}",
            ".acceptance is not a key that is known here; did you mean `acceptance_ratio`?",
        ),
        ("0.7", " must be a mapping of keys to values, not '0.7'"),
    ],
)
def test_what_is_no_reference_is_refused(mistakes, keys, told):
    assert mistakes(f"targets: [{{url: http://a, reference: {keys}}}]")[0] == f"1: targets[0].reference{told}"


@pytest.fixture(name="saved")
def saved_fixture(references, tmp_path):
    """Save something that was measured beside the configuration."""

    def saved(*documents):
        first, *others = documents
        models = sum((other.models for other in others), first.models)
        write(tmp_path / "before.json", first.model_copy(update={"models": models}), overwrite=True)
        return models

    return saved


def called(document, name):
    return document.model_copy(
        update={"models": tuple(model.model_copy(update={"model_name": name}) for model in document.models)}
    )


def test_the_rate_may_come_from_a_file(read, saved, references):
    (model,) = saved(references["steady"])
    reference = read("reference: {file: before.json}").reference
    assert (reference.at(4), reference.at(0), reference.at(5)) == (model.acceptance_ratio,) * 2 + (None,)


def test_a_file_may_hold_a_model_at_several_numbers_of_tokens(read, saved, references):
    four, six = saved(references["steady"], references["longer"])
    reference = read("reference: {file: before.json}").reference
    assert (reference.at(4), reference.at(6)) == (four.acceptance_ratio, six.acceptance_ratio)
    assert reference.at(0) is None


def test_a_file_of_several_models_needs_a_name(read, mistakes, saved, references):
    _, other = saved(called(references["steady"], "a"), called(references["worse"], "b"))
    assert read("reference: {file: before.json, model_name: b}").reference.at(4) == other.acceptance_ratio
    told = "reference.file holds several models; say by `model_name` which one: a, b"
    assert mistakes("reference: {file: before.json}") == [f"1: {told}"]
    told = "reference.file holds no acceptance of c; there is a, b"
    assert mistakes("reference: {file: before.json, model_name: c}") == [f"1: {told}"]


def test_a_file_that_changed_is_another_reference(read, saved, references):
    saved(references["steady"])
    before = read("reference: {file: before.json}")
    assert read("reference: {file: before.json}") == before
    saved(references["worse"])
    assert read("reference: {file: before.json}") != before


def test_a_file_that_cannot_be_used_is_a_mistake_of_the_configuration(mistakes, tmp_path):
    (tmp_path / "before.json").write_text("{}")
    for name, problem in (("before.json", "is not a usable reference"), ("missing.json", "cannot be read")):
        (told,) = mistakes(f"log: {{}}\nreference:\n  file: {name}")
        assert told.startswith("3: reference.file cannot be used: ")
        assert problem in told
