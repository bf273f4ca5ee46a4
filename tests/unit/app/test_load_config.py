"""Checks of a configuration that need other stages: credentials and reference files."""

from __future__ import annotations

import pytest

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.reports.references import write as write_reference
from tests.fakes.references import references
from tests.unit.config.conftest import mistakes, read, write

__all__ = ("mistakes", "read", "references", "write")


@pytest.fixture
def loader():
    return load_config


def test_an_invalid_certificate_is_a_mistake_of_the_configuration(mistakes, tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    [mistake] = mistakes(
        "log: {level: info}\ntargets:\n  - url: https://a\n    tls_config: {ca_file: ca.pem}"
    )
    assert mistake.startswith("3: targets[0] cannot be used: tls_config: ")


def test_credentials_for_the_kubernetes_api_are_checked(mistakes, tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    keys = "api_server: https://a, tls_config: {ca_file: ca.pem}"
    [mistake] = mistakes(f"discovery: {{kubernetes: [{{{keys}}}]}}")
    assert mistake.startswith("1: discovery.kubernetes[0] cannot be used: tls_config")


def test_a_reference_file_and_a_wrong_key_are_reported_together(mistakes):
    first, second = mistakes("reference: {file: missing.json}\nwindow: [30s]")
    assert first.startswith("1: reference.file cannot be used: ")
    assert second.startswith("2: window is not a known key")


@pytest.fixture(name="saved")
def saved_fixture(references, tmp_path):
    """Save a reference file beside the configuration."""

    def saved(*documents):
        first, *others = documents
        models = sum((other.models for other in others), first.models)
        (tmp_path / "before.json").unlink(missing_ok=True)
        write_reference(tmp_path / "before.json", first.model_copy(update={"models": models}))
        return models

    return saved


def called(document, name):
    return document.model_copy(
        update={"models": tuple(model.model_copy(update={"model_name": name}) for model in document.models)}
    )


def test_the_rate_may_come_from_a_file(read, saved, references):
    (model,) = saved(references["steady"])
    reference = read("reference: {file: before.json}").reference
    assert (reference.at(4), reference.at(0), reference.at(5)) == (model.acceptance.value,) * 2 + (None,)


def test_a_file_of_several_models_needs_a_name(read, mistakes, saved, references):
    _, other = saved(called(references["steady"], "a"), called(references["worse"], "b"))
    assert read("reference: {file: before.json, model_name: b}").reference.at(4) == other.acceptance.value
    expected = "reference.file holds several models; select one by `model_name`: a, b"
    assert mistakes("reference: {file: before.json}") == [f"1: {expected}"]
    expected = "reference.file holds no acceptance of c; there is a, b"
    assert mistakes("reference: {file: before.json, model_name: c}") == [f"1: {expected}"]


def test_an_unusable_file_is_a_mistake_of_the_configuration(mistakes, tmp_path):
    (tmp_path / "before.json").write_text("{}")
    for name, problem in (("before.json", "is not a usable reference"), ("missing.json", "cannot be read")):
        (expected,) = mistakes(f"log: {{}}\nreference:\n  file: {name}")
        assert expected.startswith("3: reference.file cannot be used: ")
        assert problem in expected
