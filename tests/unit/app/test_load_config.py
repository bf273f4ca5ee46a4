"""Checks of a configuration that need other stages: credentials and reference files."""

from __future__ import annotations

import pytest

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.reports.references import read as read_reference
from spec_decode_exporter.reports.references import write as write_reference
from tests.paths import DATA
from tests.unit.config.conftest import mistakes, read, write

__all__ = ("mistakes", "read", "write")

DOCUMENT = read_reference(DATA / "references" / "reference_v1.json")
KUBERNETES = "discovery: {kubernetes: [{api_server: https://a, tls_config: {ca_file: ca.pem}}]}"


@pytest.fixture
def loader():
    return load_config


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("log: {}\ntargets:\n  - {url: 'https://a', tls_config: {ca_file: ca.pem}}", "3: targets[0] cannot be used: "),
        (KUBERNETES, "1: discovery.kubernetes[0] cannot be used: "),
    ],
    ids=["of a target", "of the Kubernetes API"],
)  # fmt: skip
def test_an_invalid_certificate_is_a_mistake_of_the_configuration(mistakes, tmp_path, text, begin):
    (tmp_path / "ca.pem").write_text("nothing")
    [mistake] = mistakes(text)
    assert mistake.startswith(f"{begin}tls_config: ")


def test_a_reference_file_and_a_wrong_key_are_reported_together(mistakes):
    first, second = mistakes("reference: {file: missing.json}\nwindow: [30s]")
    assert first.startswith("1: reference.file cannot be used: ")
    assert second.startswith("2: window is not a known key")


def save(folder, *names):
    """Save a reference file with a model of each name; return their acceptance rate."""
    (model,) = DOCUMENT.models
    models = tuple(model.model_copy(update={"model_name": name}) for name in names)
    write_reference(folder / "before.json", DOCUMENT.model_copy(update={"models": models}))
    return model.acceptance.value


def test_the_rate_may_come_from_a_file(read, tmp_path):
    rate = save(tmp_path, "a")
    reference = read("reference: {file: before.json}").reference
    assert (reference.at(4), reference.at(0), reference.at(5)) == (rate, rate, None)


def test_a_file_of_several_models_needs_a_name(read, mistakes, tmp_path):
    rate = save(tmp_path, "a", "b")
    assert read("reference: {file: before.json, model_name: b}").reference.at(4) == rate
    expected = "reference.file holds several models; select one by `model_name`: a, b"
    assert mistakes("reference: {file: before.json}") == [f"1: {expected}"]
    expected = "reference.file holds no acceptance of c; there is a, b"
    assert mistakes("reference: {file: before.json, model_name: c}") == [f"1: {expected}"]


@pytest.mark.parametrize(
    ("name", "problem"), [("before.json", "is not a usable reference"), ("missing.json", "cannot be read")]
)
def test_an_unusable_file_is_a_mistake_of_the_configuration(mistakes, tmp_path, name, problem):
    (tmp_path / "before.json").write_text("{}")
    (expected,) = mistakes(f"log: {{}}\nreference:\n  file: {name}")
    assert expected.startswith("3: reference.file cannot be used: ")
    assert problem in expected
