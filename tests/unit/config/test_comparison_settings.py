"""Source of a baseline: a Prometheus, general or of a target."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.comparison_settings import ReferenceSettings
from spec_decode_exporter.config.load import active_yaml
from spec_decode_exporter.core.urls import api_address
from tests.paths import CHECKOUT


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


GOOD = """\
    experiments:
      - name: drafter
        arms:
          "off": {match: {method: "off", team: a}}
          eagle: {match: {method: eagle3, team: a}}
        baseline: "off"
    """


def test_without_any_nothing_is_compared(read):
    assert read("").experiments == ()


def test_arms_are_labels_and_one_of_them_is_the_baseline(read):
    (experiment,) = read(GOOD).experiments
    assert (experiment.name, experiment.baseline) == ("drafter", "off")
    assert {name: dict(arm.match) for name, arm in experiment.arms.items()} == {
        "off": {"method": "off", "team": "a"},
        "eagle": {"method": "eagle3", "team": "a"},
    }


def test_arms_that_differ_in_one_common_label_exclude_each_other(read):
    assert read(GOOD.replace("method: eagle3, team: a", "method: eagle3, zone: z")).experiments


def test_a_second_experiment_of_the_same_name_is_rejected(mistakes):
    again = "\n".join(GOOD.split("\n")[1:])
    [reported] = mistakes(GOOD.rstrip(" ") + again)
    assert reported == "7: experiments[1].name is also the name of another experiment; give each its own"


def test_several_exporters_that_share_the_targets_cannot_compare_them(mistakes):
    [reported] = mistakes(GOOD + "discovery: {shard: {count: 3}}\n")
    assert reported.startswith("1: experiments cannot be compared by one of 3 exporters")
    assert "arms.yml" in reported


def test_the_documented_example_is_valid(read):
    page = (CHECKOUT / "docs" / "guide" / "experiments.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    (experiment,) = read(example).experiments
    assert list(experiment.arms) == ["off", "eagle", "ngram"]


OTHER_ARM = "method: eagle3, team: a"
SHARED = "5: experiments[0].arms.eagle.match may match the engines of `off`; give both"


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ('baseline: "off"', "baseline: none", "6: experiments[0].baseline is not one of the arms; there are off, eagle"),
        (f"          eagle: {{match: {{{OTHER_ARM}}}}}\n", "", "3: experiments[0].arms needs two arms or more"),
        (OTHER_ARM, "team: a", SHARED),
        (OTHER_ARM, "name: two", SHARED),
        (OTHER_ARM, "method: 'off', team: a", SHARED),
        (OTHER_ARM, "method: 'off', zone: z", SHARED),
        (OTHER_ARM, "target: a", "is a label of the exporter's own metrics"),
        (OTHER_ARM, "job: a", "is a label that Prometheus sets"),
        (OTHER_ARM, "a-b: a", "is not a label name"),
        (OTHER_ARM, "method: ''", "must not be empty"),
        (OTHER_ARM, "", "must not be empty"),
        ("{match: {method: eagle3", "{matches: {method: eagle3", "matches is not a known key here; did you mean `match`?"),
        *(("name: drafter", f"name: {name}", "2: experiments[0].name ") for name in ("''", "a b", "'a{b}'", "-a", "a" * 65, "ä")),
    ],
)  # fmt: skip
def test_an_invalid_experiment_is_rejected_with_the_reason(mistakes, old, new, mistake):
    reported = mistakes(GOOD.replace(old, new))
    if mistake.startswith(("3:", "5:", "6:")):
        [mistake_alone] = reported
        assert mistake_alone.startswith(mistake)
    assert any(mistake in each for each in reported), reported
