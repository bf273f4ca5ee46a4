"""docs/guide/integrations.md: every link leads somewhere, and every series, configuration key and file exists."""

from __future__ import annotations

import re
from pathlib import Path

from tests.every import every
from tests.integrations.shipped import ADAPTER, SCALED_OBJECT, SLO

from .documents import DOCS, alerts, code, series, wrong_links, wrong_series

PAGE = DOCS / "guide/integrations.md"
TEXT = PAGE.read_text(encoding="utf-8")
SERVED = {rule["name"]["as"] for rule in ADAPTER["externalRules"]}


def test_every_link_leads_somewhere():
    assert list(wrong_links(TEXT, PAGE)) == []


@every([name for name in series(code(TEXT)) if name not in SERVED])
def test_every_series_exists(name):
    assert list(wrong_series(name)) == []


def test_every_alert_is_an_alert_or_that_of_the_slo():
    assert alerts(code(TEXT)) == {SLO["slos"][0]["alerting"]["name"]}


def test_the_triggers_and_their_thresholds_are_those_of_the_file():
    rows = re.findall(r"^\| `([\w-]+)` \|[^|]*\| ([\d.]+):", TEXT, flags=re.MULTILINE)
    triggers = SCALED_OBJECT["spec"]["triggers"]
    assert rows == [(one["name"], one["metadata"]["threshold"]) for one in triggers]


def test_the_files_of_its_commands_exist():
    named = re.findall(r"(?:-f|-i|--config|all) ((?:config|grafana)/\S+)", TEXT)
    assert len(named) == 3
    assert [name for name in named if not (DOCS.parent / Path(name)).exists()] == []


def test_every_metric_of_the_adapter_that_it_asks_for_is_served():
    asked = re.findall(r"namespaces/inference/(\w+)", TEXT)
    assert asked
    assert set(asked) <= SERVED
