"""Source of a baseline: a Prometheus, general or of a target."""

from __future__ import annotations

import pytest

from spec_decode_exporter.core.urls import api_address

HISTORY = "baseline: {prometheus: {url: http://prometheus:9090}}\n"


def test_it_has_defaults_but_no_default_url(read, mistakes):
    assert "baseline.prometheus" in mistakes("baseline: {prometheus: {match: ''}}")[0]
    settings = read(HISTORY).baseline.prometheus
    assert (settings.url, settings.match, settings.lookback) == ("http://prometheus:9090", "", 14 * 86_400)


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ("match: job=vllm", 'is not a list of label matchers; write for example \'job="vllm"'),
        ("lookback: 10m", "must be 1h to 90d"),
        ("lookback: 91d", "must be 1h to 90d"),
        ("lookback: -1s", "lookback"),
        ("since: 7d", "is not a known key here"),
    ],
)
def test_mistakes_are_named(mistakes, keys, mistake):
    (found,) = mistakes(f"baseline:\n  prometheus:\n    url: http://p:9090\n    {keys}\n")
    assert found.startswith("4: baseline.prometheus.")
    assert mistake in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://p:9090", "http://p:9090"),
        ("http://P:9090/", "http://p:9090"),
        ("http://p:9090/graph", "http://p:9090"),
        ("https://m.example.com/prometheus/api/v1", "https://m.example.com/prometheus"),
    ],
)
def test_a_page_that_was_copied_with_the_address_is_left_out(text, expected):
    assert api_address(text) == expected
