"""Checks of a configuration that need other stages: credentials and reference files."""

import pytest

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.reports import saved_snapshot
from tests.fakes.references import measured
from tests.unit.config.conftest import mistakes, read, write

__all__ = ("mistakes", "read", "write")

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


def test_the_rate_may_come_from_a_file(read, tmp_path):
    view = measured("steady")
    saved_snapshot.write(tmp_path / "before.json", view)
    rate = view.models[0].acceptance.value
    reference = read("reference: {file: before.json}").reference
    assert (reference.at(4), reference.at(0), reference.at(5)) == (rate, rate, None)
