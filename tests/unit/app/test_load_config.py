"""Checks of a configuration that need other stages: credentials and reference files."""

import pytest

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.reports import saved_snapshot
from tests.fakes.references import measured
from tests.unit.config.loading import mistakes, read

KUBERNETES = "discovery: {kubernetes: [{api_server: https://a, tls_config: {ca_file: ca.pem}}]}"


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("log: {}\ntargets:\n  - {url: 'https://a', tls_config: {ca_file: ca.pem}}", "3: targets[0] cannot be used: "),
        (KUBERNETES, "1: discovery.kubernetes[0] cannot be used: "),
    ],
    ids=["of a target", "of the Kubernetes API"],
)  # fmt: skip
def test_an_invalid_certificate_is_a_mistake_of_the_configuration(tmp_path, text, begin):
    (tmp_path / "ca.pem").write_text("nothing")
    [mistake] = mistakes(tmp_path, text, loader=load_config)
    assert mistake.startswith(f"{begin}tls_config: ")


def test_a_reference_file_and_a_wrong_key_are_reported_together(tmp_path):
    first, second = mistakes(tmp_path, "reference: {file: missing.json}\nwindow: [30s]", loader=load_config)
    assert first.startswith("1: reference.file cannot be used: ")
    assert second.startswith("2: window is not a known key")


def test_the_rate_may_come_from_a_file(tmp_path):
    view = measured("steady")
    saved_snapshot.write(tmp_path / "before.json", view)
    rate = view.models[0].acceptance.value
    reference = read(tmp_path, "reference: {file: before.json}", loader=load_config).reference
    assert (reference.at(4), reference.at(0), reference.at(5)) == (rate, rate, None)
