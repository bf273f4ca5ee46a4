"""The chart as a whole: linted, packed, rendered as it was reviewed, and what it says after it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from helm.chart_files import CHART
from spec_decode_exporter import __version__

GOLDEN = Path(__file__).with_name("golden")


def values_of(case):
    return yaml.safe_load((CHART / "ci" / f"{case}-values.yaml").read_text())


def test_helm_has_nothing_to_say_against_it(case):
    from helm_python import chart

    found = chart.lint(str(CHART), values_of(case), strict=True, namespace="obs")
    assert not [one for one in found["messages"] if one["severity"] > 1]
    assert not found["errors"]


def test_it_is_small_enough_for_the_secret_of_a_release(tmp_path):
    from helm_python import chart

    packed = chart.package(str(CHART), destination=str(tmp_path))
    assert Path(packed).stat().st_size < 300_000, "a release holds the chart and its rendering in 1 MiB"


@pytest.mark.parametrize(("case", "values"), [("defaults", {}), ("injection", values_of("injection"))])
def test_it_renders_what_was_reviewed(render, case, values):
    """A change here is meant to be looked at: remove the file, run the test, and read the difference."""
    path = GOLDEN / f"{case}.yaml"
    text = yaml.safe_dump_all(render(values), sort_keys=False, width=120).replace(__version__, "VERSION")
    if not path.exists():
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({}, "and none until there is one:\n\n  spec-decode-exporter/watch=true in obs\n"),
        ("fleet", "\n  app.kubernetes.io/component=vllm in inference, research\n"),
        ({}, "\n  curl http://localhost:7732/metrics\n"),
        ("web", '\n  curl --insecure --user "prometheus" https://localhost:7732/metrics\n'),
        ("web", "a certificate of the client too"),
        ("shards", "port-forward pod/rel-spec-decode-exporter-0 7732\n\nis that of one shard of 3"),
        ("injection", f"spec-decode-exporter:{__version__}, has no registry"),
        ({}, "WARNING: image.registry is not set."),
        ("injection", "no image is published yet"),
        ({}, "Nothing scrapes it yet"),
        ("shards", "The network policy denies all scrapes: set networkPolicy.ingressFrom"),
        ("shards", "\n  app.kubernetes.io/component=vllm in all namespaces\n"),
        ("static", "port-forward service/rel-spec-decode-exporter"),
        ("injection", "kubectl rollout restart"),
        ("sidecar", "how the container gets into a pod"),
        ({"mode": "sidecar"}, "Nothing scrapes the sidecars yet"),
        ("fleet", "--disable-access-log-for-endpoints /metrics,/metrics/"),
        ({}, "counted twice"),
    ],
)
def test_what_it_says_after_it_is_installed(render, values, part):
    assert part in render(values).notes


def test_with_a_registry_the_notes_have_no_warning(render):
    assert "WARNING" not in render({"image": {"registry": "registry.example.org"}}).notes
