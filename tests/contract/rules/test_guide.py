"""The table of the guide has every alert as it is: severity, and when it fires and ends as measured by promtool."""

from __future__ import annotations

import re

from tests.every import every

from .shipped import ROOT, alerts, rule_id
from .test_promtool import cases_of_alerts

GUIDE = (ROOT / "docs" / "guide" / "alerts.md").read_text(encoding="utf-8")


def table():
    """Return the cells of each row after the kind, by alert and kind; a name stands in the first of its rows."""
    rows, name = {}, ""
    for line in GUIDE.splitlines():
        if match := re.fullmatch(
            r"\| (?:\[(\w+)\]\(\.\./runbooks/SpecDecode\1\.md\))? ?\| (?:`(\w+)`)? ?\| (.*) \|", line
        ):
            name = match[1] or name
            rows[" ".join(filter(None, (f"SpecDecode{name}", match[2])))] = match[3].split(" | ")
    return rows


TABLE = table()
TESTS = dict(cases_of_alerts())


def test_it_has_every_alert():
    assert sorted(TABLE) == sorted(rule_id(alert) for alert in alerts())


@every(alerts(), rule_id)
def test_it_says_when_an_alert_fires_and_ends(alert):
    measured = [
        max(sample["value"] for sample in one["exp_samples"])
        for one in TESTS[rule_id(alert)]["promql_expr_test"]
    ]
    severity, means, _, fires, ends = TABLE[rule_id(alert)]
    assert means
    assert [severity, fires, ends] == [
        alert["labels"]["severity"],
        *(f"{seconds // 60}:{seconds % 60:02d}" for seconds in measured),
    ]


def test_a_name_has_one_action():
    actions = {rule_id(alert).split()[0]: TABLE[rule_id(alert)][2] for alert in reversed(alerts())}
    assert all(actions.values())
