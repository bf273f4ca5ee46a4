"""Prometheus' own tool reads the rules, and finds that they do what their tests say, however often it scrapes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from config.prometheus.generate.testing import INTERVAL, promtool_tests

from .shipped import PROMETHEUS, SETTINGS, needs, rule_files

pytestmark = [needs("promtool"), pytest.mark.timeout(180)]

NAMES = [path for path, _ in promtool_tests(SETTINGS)]


def promtool(*arguments):
    """Run promtool and return its exit status and what it said."""
    run = subprocess.run(
        [shutil.which("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_prometheus_reads_the_rules(path):
    status, said = promtool("check", "rules", path)
    assert (status, "SUCCESS" in said) == (0, True), said


@pytest.mark.parametrize("name", NAMES)
def test_the_rules_do_what_their_tests_say(name):
    status, said = promtool("test", "rules", PROMETHEUS / name)
    assert status == 0, said


@pytest.mark.parametrize("interval", [5, 60])
@pytest.mark.parametrize("name", NAMES)
def test_they_do_so_at_the_fastest_and_the_slowest_scrapes(name, interval, tmp_path):
    assert interval != INTERVAL
    for folder in ("rules", "alerts"):
        shutil.copytree(PROMETHEUS / folder, tmp_path / folder)
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text(dict(promtool_tests(SETTINGS, interval))[name], encoding="utf-8")
    status, said = promtool("test", "rules", path)
    assert status == 0, said


def test_a_rule_that_does_not_what_its_tests_say_is_found(tmp_path):
    for folder in ("rules", "alerts", "tests"):
        shutil.copytree(PROMETHEUS / folder, tmp_path / folder)
    path = tmp_path / "alerts" / "trust.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("[2m]) == 0", "[2m]) == 1"), encoding="utf-8")
    status, said = promtool("test", "rules", tmp_path / "tests" / "alerts-trust.yml")
    assert status != 0
    assert "SpecDecodeTargetDown" in said
