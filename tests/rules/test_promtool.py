"""Prometheus' own tool reads the rules and runs their tests at the shipped scrape interval.

tests/e2e/test_scrape_intervals.py runs the same tests at the shortest and the longest interval.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from config.prometheus.generate.testing import promtool_tests

from .shipped import PROMETHEUS, SETTINGS, needs, rule_files

pytestmark = [needs("promtool"), pytest.mark.timeout(180)]

NAMES = [path for path, _ in promtool_tests(SETTINGS)]


def promtool(*arguments):
    """Run promtool; return its exit status and its output."""
    run = subprocess.run(
        [shutil.which("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_prometheus_reads_the_rules(path):
    status, output = promtool("check", "rules", path)
    assert (status, "SUCCESS" in output) == (0, True), output


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_rules_pass_their_tests(name):
    status, output = promtool("test", "rules", PROMETHEUS / name)
    assert status == 0, output


def test_a_rule_that_violates_its_tests_is_found(tmp_path):
    for folder in ("rules", "alerts", "tests"):
        shutil.copytree(PROMETHEUS / folder, tmp_path / folder)
    path = tmp_path / "alerts" / "trust.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("[2m]) == 0", "[2m]) == 1"), encoding="utf-8")
    status, output = promtool("test", "rules", tmp_path / "tests" / "alerts-trust.yml")
    assert status != 0
    assert "SpecDecodeTargetDown" in output
