"""The chart as a whole: linted, packed, rendered as it was reviewed, and what it says after it is installed."""

import yaml

from helm.chart_files import CHART
from spec_decode_exporter import __version__
from tests.contract.chart.rendering import CASES, each_case, render
from tests.fakes.golden import is_golden
from tests.paths import DATA

GOLDEN = DATA / "chart"


@each_case
def test_helm_has_nothing_to_say_against_it(case):
    from helm_python import chart

    found = chart.lint(str(CHART), CASES[case], strict=True, namespace="obs")
    assert not [one for one in found["messages"] if one["severity"] > 1]
    assert not found["errors"]


def test_it_renders_what_was_reviewed():
    text = yaml.safe_dump_all(render(), sort_keys=False, width=120)
    is_golden(GOLDEN / "fleet.yaml", text.replace(__version__, "VERSION"))


ALL = {
    "image": {"registry": "r.example.org"},
    "monitor": {"enabled": True},
    "prometheusRule": {"enabled": True, "advice": True},
}


def test_what_it_says_after_it_is_installed_is_what_was_reviewed():
    """By default, with everything enabled, and for each case in ci/."""
    notes = [
        f"===== {name}\n{render(values).notes}\n" for name, values in {"no values": {}, "all": ALL}.items()
    ]
    notes += [f"===== {case}\n{render(case).notes}\n" for case in CASES]
    is_golden(GOLDEN / "notes.txt", "".join(notes).replace(__version__, "VERSION"))
