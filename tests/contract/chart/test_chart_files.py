"""The chart's copies of dashboards, rules, alerts and the middleware: complete, current, and required."""

import shutil

import pytest

from helm import chart_files
from tests.contract.chart.rendering import CHART, ON, render_chart


def test_the_chart_contains_exactly_the_copies():
    copies = chart_files.copies()
    assert {path for path in (CHART / "files").rglob("*") if path.is_file()} == set(copies)
    assert [path.name for path, text in copies.items() if path.read_text() != text] == []
    kinds = {path.relative_to(CHART / "files").parts[0] for path in copies}
    assert kinds == {"dashboards", "middleware", "prometheus"}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"mode": "fleet"}, None),
        ({"dashboards": {"enabled": True}}, "dashboards.enabled needs files/dashboards/"),
        ({"prometheusRule": {"enabled": True}}, "prometheusRule.enabled needs files/prometheus/"),
        (ON, "sidecar.middleware needs files/middleware/"),
    ],
    ids=["what needs no copy", "dashboards", "rules", "middleware"],
)
def test_a_checkout_without_the_copies_is_rejected_with_the_command(tmp_path, values, named):
    from helm_python.errors import HelmError

    folder = tmp_path / CHART.name
    shutil.copytree(CHART, folder, ignore=shutil.ignore_patterns("files"))
    if named is None:
        assert render_chart(folder, values).one("Deployment")
        return
    with pytest.raises(HelmError) as caught:
        render_chart(folder, values)
    assert named in str(caught.value)
    assert "run `make chart-files`" in str(caught.value)
