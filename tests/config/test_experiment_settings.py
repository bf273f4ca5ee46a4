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
    page = (Path(__file__).parents[2] / "docs" / "guide" / "experiments.md").read_text(encoding="utf-8")
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
