"""Prometheus' own tool reads the rules and runs their tests at the shipped scrape interval.

tests/e2e/test_scrape_intervals.py runs them at the shortest and the longest interval.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from .shipped import PROMETHEUS, ROOT, alerts, needs, rule_files, rule_id

pytestmark = [needs("promtool"), pytest.mark.timeout(180)]

FILES = sorted((Path(__file__).parent / "promtool").glob("*.yml"))
ALERT = re.compile(r'alertname="(\w+)"(?:, kind="(\w+)")?')


def promtool(*arguments):
    """Run promtool; return its exit status and its output."""
    run = subprocess.run(
        [shutil.which("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout + run.stderr


def cases_of_alerts():
    """Yield every test of an alert, with the alert and the kind that it is about."""
    for path in FILES:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            found = {ALERT.search(one["expr"]) for one in test["promql_expr_test"]} - {None}
            for name in {" ".join(filter(None, match.groups())) for match in found}:
                yield name, test


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_prometheus_reads_the_rules(path):
    status, output = promtool("check", "rules", path)
    assert (status, "SUCCESS" in output) == (0, True), output


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_rules_pass_their_tests(path):
    status, output = promtool("test", "rules", path)
    assert status == 0, output


def test_every_alert_of_every_kind_fires_in_a_test_and_is_silent_in_it():
    tested = dict(cases_of_alerts())
    assert set(tested) == {rule_id(alert) for alert in alerts()}
    assert all(one["exp_samples"] for test in tested.values() for one in test["promql_expr_test"])
    assert [name for name, test in tested.items() if '="fine' not in str(test["input_series"])] == []


def test_a_rule_that_violates_its_tests_is_found(tmp_path):
    for folder in (PROMETHEUS, FILES[0].parent):
        shutil.copytree(folder, tmp_path / folder.relative_to(ROOT))
    path = tmp_path / "config" / "prometheus" / "alerts" / "advice.yml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("[15m]) >= 0.8", "[15m]) >= 0.2"), encoding="utf-8"
    )
    status, output = promtool("test", "rules", tmp_path / FILES[0].parent.relative_to(ROOT) / "advice.yml")
    assert status != 0
    assert "SpecDecodeMixedWorkload" in output
