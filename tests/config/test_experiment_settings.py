from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def test_an_unknown_baseline_is_reported_with_the_known_arms(mistakes):
    [reported] = mistakes(GOOD.replace('baseline: "off"', "baseline: none"))
    assert reported == "6: experiments[0].baseline is not one of the arms; there are off, eagle"


def test_one_arm_is_not_enough(mistakes):
    [reported] = mistakes(GOOD.replace("          eagle: {match: {method: eagle3, team: a}}\n", ""))
    assert reported.startswith("3: experiments[0].arms needs two arms or more")


@pytest.mark.parametrize(
    "other", ["team: a", "name: two", "method: 'off', team: a", "method: 'off', zone: z"]
)
def test_arms_that_may_share_an_engine_are_rejected(mistakes, other):
    [reported] = mistakes(GOOD.replace("method: eagle3, team: a", other))
    assert reported.startswith("5: experiments[0].arms.eagle.match may match the engines of `off`; give both")


def test_arms_that_differ_in_one_common_label_exclude_each_other(read):
    assert read(GOOD.replace("method: eagle3, team: a", "method: eagle3, zone: z")).experiments


@pytest.mark.parametrize(
    ("match", "why"),
    [
        ("target: a", "is a label of the exporter's own metrics"),
        ("job: a", "is a label that Prometheus sets"),
        ("a-b: a", "is not a label name"),
        ("method: ''", "must not be empty"),
        ("", "must not be empty"),
    ],
)
def test_an_invalid_match_label_is_rejected(mistakes, match, why):
    reported = mistakes(GOOD.replace("method: eagle3, team: a", match))
    assert any(why in each for each in reported), reported


@pytest.mark.parametrize("name", ["''", "a b", "'a{b}'", "-a", "a" * 65, "ä"])
def test_names_are_plain_words_for_labels_and_texts(mistakes, name):
    reported = mistakes(GOOD.replace("name: drafter", f"name: {name}"))
    assert reported[0].startswith("2: experiments[0].name ")


def test_a_second_experiment_of_the_same_name_is_rejected(mistakes):
    again = "\n".join(GOOD.split("\n")[1:])
    [reported] = mistakes(GOOD.rstrip(" ") + again)
    assert reported == "7: experiments[1].name is also the name of another experiment; give each its own"


def test_an_unknown_key_is_reported_with_the_nearest_one(mistakes):
    reported = mistakes(GOOD.replace("{match: {method: eagle3", "{matches: {method: eagle3"))
    assert any("matches is not a known key here; did you mean `match`?" in each for each in reported)


def test_several_exporters_that_share_the_targets_cannot_compare_them(mistakes):
    [reported] = mistakes(GOOD + "discovery: {shard: {count: 3}}\n")
    assert reported.startswith("1: experiments cannot be compared by one of 3 exporters")
    assert "arms.yml" in reported


def test_the_documented_example_is_valid(read):
    page = (Path(__file__).parents[2] / "docs" / "guide" / "experiments.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    (experiment,) = read(example).experiments
    assert list(experiment.arms) == ["off", "eagle", "ngram"]
