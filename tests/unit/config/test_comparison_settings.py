"""What measurements are compared with: references, a Prometheus, and arms of experiments."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.comparison_settings import ReferenceSettings
from spec_decode_exporter.core.urls import api_address
from tests.paths import CHECKOUT


def test_a_target_may_have_a_reference_beside_the_general_one(read):
    text = "reference: {acceptance_ratio: 0.7}\ntargets: [{url: http://a, reference: {acceptance_ratio: 0.8, tokens: 4}}]"
    config = read(text)
    assert config.reference == ReferenceSettings(acceptance_ratio=0.7)
    assert config.targets[0].reference == ReferenceSettings(acceptance_ratio=0.8, tokens=4)


@given(st.floats(0, 1), st.integers(1, 128) | st.none(), st.integers(0, 128))
def test_an_engine_is_compared_unless_it_drafts_another_number_of_tokens(ratio, tokens, drafted):
    """The rate applies too if either number is unknown."""
    is_other = tokens is not None and drafted not in (0, tokens)
    found = ReferenceSettings(acceptance_ratio=ratio, tokens=tokens).at(drafted)
    assert found == (None if is_other else ratio)


def test_a_prometheus_has_defaults_but_no_default_url(read):
    settings = read("baseline: {prometheus: {url: http://prometheus:9090}}").baseline.prometheus
    assert (settings.url, settings.match, settings.lookback) == ("http://prometheus:9090", "", 14 * 86_400)


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


def test_the_documented_experiment_has_arms_by_labels_and_a_baseline(read):
    page = (CHECKOUT / "docs" / "guide" / "experiments.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    (experiment,) = read(example).experiments
    assert list(experiment.arms) == ["off", "eagle", "ngram"]
    assert read("").experiments == ()


@pytest.mark.parametrize("other", ["{method: eagle3, team: a}", "{method: eagle3, zone: z}"])
def test_arms_that_differ_in_one_common_label_exclude_each_other(read, other):
    arms = f"{{a: {{match: {{method: ngram, team: a}}}}, b: {{match: {other}}}}}"
    (experiment,) = read(f"experiments: [{{name: drafter, arms: {arms}, baseline: a}}]").experiments
    assert (experiment.name, experiment.baseline) == ("drafter", "a")
    assert dict(experiment.arms["a"].match) == {"method": "ngram", "team": "a"}
