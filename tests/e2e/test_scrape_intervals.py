"""The rules pass their tests at the shortest and the longest scrape interval, by promtool."""

from __future__ import annotations

import shutil

import pytest

from config.prometheus.generate.testing import INTERVAL, promtool_tests
from tests.rules.shipped import PROMETHEUS, SETTINGS, needs
from tests.rules.test_promtool import NAMES, promtool

pytestmark = needs("promtool")


@pytest.mark.parametrize("interval", [5, 60])
@pytest.mark.parametrize("name", NAMES)
def test_the_rules_pass_their_tests_at_any_scrape_interval(name, interval, tmp_path):
    assert interval != INTERVAL
    for folder in ("rules", "alerts"):
        shutil.copytree(PROMETHEUS / folder, tmp_path / folder)
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text(dict(promtool_tests(SETTINGS, interval))[name], encoding="utf-8")
    status, output = promtool("test", "rules", path)
    assert status == 0, output
