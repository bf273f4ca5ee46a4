"""The chart's copies of dashboards, rules, alerts and the middleware: complete, current, and required."""

from __future__ import annotations

import shutil

import pytest

from helm import chart_files
from tests.contract.chart.rendering import CHART, render_chart

MIDDLEWARE = {"mode": "sidecar", "config": {"requests": {"ingest": True}}, "sidecar": {"middleware": True}}


@pytest.fixture
def checkout(tmp_path):
    """A chart without its copies, as git has it."""
    folder = tmp_path / CHART.name
    shutil.copytree(CHART, folder, ignore=shutil.ignore_patterns("files"))
    return folder


def test_the_chart_contains_exactly_the_copies():
    copied = {path for path in (CHART / "files").rglob("*") if path.is_file()}
    assert copied == set(chart_files.copies())


def test_every_copy_equals_its_source():
    different = [path.name for path, text in chart_files.copies().items() if path.read_text() != text]
    assert different == []


def test_every_kind_of_file_is_copied():
    kinds = {path.relative_to(CHART / "files").parts[0] for path in chart_files.copies()}
    assert kinds == {"dashboards", "middleware", "prometheus"}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"dashboards": {"enabled": True}}, "dashboards.enabled needs files/dashboards/"),
        ({"prometheusRule": {"enabled": True}}, "prometheusRule.enabled needs files/prometheus/"),
        (MIDDLEWARE, "sidecar.middleware needs files/middleware/"),
    ],
)
def test_a_checkout_without_the_copies_is_rejected_with_the_command(checkout, values, named):
    from helm_python.errors import HelmError

    with pytest.raises(HelmError) as caught:
        render_chart(checkout, values)
    assert named in str(caught.value)
    assert "run `make chart-files`" in str(caught.value)


def test_a_checkout_without_the_copies_installs_what_needs_none(checkout):
    assert render_chart(checkout, {"mode": "fleet"}).one("Deployment")
