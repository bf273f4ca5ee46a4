"""The chart as a whole: linted, packed, rendered as it was reviewed, and what it says after it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from helm.chart_files import CHART
from spec_decode_exporter import __version__
from tests.contract.chart.rendering import values_of
from tests.paths import DATA

GOLDEN = DATA / "chart"


def test_helm_has_nothing_to_say_against_it(case):
    from helm_python import chart

    found = chart.lint(str(CHART), values_of(case), strict=True, namespace="obs")
    assert not [one for one in found["messages"] if one["severity"] > 1]
    assert not found["errors"]


def test_it_is_small_enough_for_the_secret_of_a_release(tmp_path):
    from helm_python import chart

    packed = chart.package(str(CHART), destination=str(tmp_path))
    assert Path(packed).stat().st_size < 300_000, "a release holds the chart and its rendering in 1 MiB"


def test_it_renders_what_was_reviewed(render):
    """A change here is meant to be looked at: remove the file, run the test, and read the difference."""
    path = GOLDEN / "fleet.yaml"
    text = yaml.safe_dump_all(render(), sort_keys=False, width=120).replace(__version__, "VERSION")
    if not path.exists():
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({}, "with these labels:\n\n  spec-decode-exporter/watch=true in obs\n"),
        ("fleet", "\n  app.kubernetes.io/component=vllm in inference, research\n"),
        ("shards", "\n  app.kubernetes.io/component=vllm in all namespaces\n"),
        ({}, "\n  curl http://localhost:7732/metrics\n"),
        ("web", '\n  curl --insecure --user "prometheus" https://localhost:7732/metrics\n'),
        ("web", "a client certificate"),
        ("shards", "port-forward pod/rel-spec-decode-exporter-0 7732\n\nIt belongs to one of 3 exporters"),
        ("static", "port-forward service/rel-spec-decode-exporter"),
        ({}, "WARNING: image.registry is not set."),
        ("sidecar", "WARNING: image.registry is not set."),
        ({}, "Nothing scrapes it yet"),
        ("fleet", "set prometheusRule.advice to true"),
        ("sidecar", "docs/guide/kubernetes-sidecar.md"),
        ("fleet", "--disable-access-log-for-endpoints /metrics,/metrics/"),
        ({}, "count twice"),
    ],
)
def test_what_it_says_after_it_is_installed(render, values, part):
    assert part in render(values).notes


def test_the_notes_have_nothing_to_add_if_everything_is_enabled(render):
    values = {"image": {"registry": "r.example.org"}, "monitor": {"enabled": True}}
    notes = render({**values, "prometheusRule": {"enabled": True, "advice": True}}).notes
    assert "WARNING" not in notes
    assert "Nothing scrapes" not in notes
    assert "only advise" not in notes


def test_there_are_at_most_60_values():
    def leaves(values):
        return sum(map(leaves, values.values())) if isinstance(values, dict) and values else 1

    assert 50 < leaves(yaml.safe_load((CHART / "values.yaml").read_text())) <= 60
