"""Every alert says what a reader needs."""

from __future__ import annotations

import re

import promql_parser

from spec_decode_exporter.experiments.traffic import TRAFFIC, Traffic
from spec_decode_exporter.findings.findings import DEAD, LOW_RATE
from tests.every import every

from .shipped import PROMETHEUS, ROOT, alerts, nodes, rule_id, rules

ALERTS = alerts()
DASHBOARDS = {path.stem for path in (ROOT / "grafana" / "dashboards").glob("*.json")}
LARGEST_NUMBER = 24

each = every(ALERTS, rule_id)


def test_rules_are_unique_and_names_begin_alike():
    names = {alert["alert"] for alert in ALERTS}
    assert len(names) <= LARGEST_NUMBER
    assert len({rule_id(alert) for alert in ALERTS}) == len(ALERTS)
    assert all(re.fullmatch(r"SpecDecode([A-Z][a-z]+)+", name) for name in names)


def test_a_name_with_several_rules_has_a_kind_in_each():
    names = [alert["alert"] for alert in ALERTS]
    assert [
        alert["alert"]
        for alert in ALERTS
        if names.count(alert["alert"]) > 1 and "kind" not in alert["labels"]
    ] == []


@each
def test_the_severity_is_one_of_three(alert):
    assert set(alert["labels"]) <= {"severity", "kind"}
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}


def test_alerts_that_only_advise_are_in_a_file_of_their_own():
    advice = (PROMETHEUS / "alerts" / "advice.yml").read_text(encoding="utf-8")
    assert {alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "info"} == set(
        re.findall(r"- alert: (\w+)", advice)
    )


@each
def test_the_summary_is_one_sentence_without_templates(alert):
    summary = alert["annotations"]["summary"]
    assert summary.endswith(".")
    assert "{{" not in summary
    assert ". " not in summary


@each
def test_the_description_names_what_is_affected_and_ends_with_the_action(alert):
    description = alert["annotations"]["description"]
    assert description.endswith(".")
    assert "{{ $labels." in description or rule_id(alert) == "SpecDecodeExporterDown absent"
    action = re.sub(r"{{.*?}}", "", description)
    verbs = (
        "Add|Compare|Correct|Do not|Give|Keep|Look|Lower|Move|Poll|Raise|Read|Restart|Roll|Send|Set|Start|Try"
    )
    assert re.search(rf"(?:[.)] |and )(?:{verbs}|add)\b[^.]*(?:\.[^.]+)*\.$", action)


@each
def test_there_are_a_runbook_and_a_dashboard(alert):
    annotations = alert["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert annotations["runbook_url"].endswith(f"/docs/runbooks/{alert['alert']}.md")
    assert '"external_url"' in annotations["runbook_url"]
    start, _, rest = annotations["dashboard_url"].partition("/d/")
    assert start == "http://localhost:3000"
    assert rest.partition("?")[0] in DASHBOARDS


@each
def test_ranges_hold_two_scrapes_of_60_s_and_rates_four(alert):
    ranges = [
        node.range.total_seconds()
        for node in nodes(alert["expr"])
        if isinstance(node, promql_parser.MatrixSelector)
    ]
    assert all(seconds >= 120 for seconds in ranges)
    rates = [
        node.args[0].range.total_seconds()
        for node in nodes(alert["expr"])
        if isinstance(node, promql_parser.Call) and node.func.name in {"rate", "increase"}
    ]
    assert all(seconds >= 240 for seconds in rates)


def test_only_alerts_for_which_somebody_gets_up_are_critical():
    critical = {rule_id(alert) for alert in ALERTS if alert["labels"]["severity"] == "critical"}
    assert critical == {
        "SpecDecodeTargetDown down",
        "SpecDecodeTargetDown never_up",
        "SpecDecodeModelAcceptanceDropped",
    }


def test_a_dead_drafter_and_a_low_rate_are_the_same_for_alerts_and_findings():
    expressions = {rule_id(alert): alert["expr"] for alert in ALERTS}
    assert f"< {DEAD}\n" in expressions["SpecDecodeDrafterDead"]
    assert f"< {LOW_RATE:.2f}\n" in expressions["SpecDecodeAcceptanceLow rate"]


def test_arms_across_exporters_are_compared_up_to_the_load_that_is_a_caution():
    [rule] = [
        rule for rule in rules() if rule.get("record", "").startswith("arm:spec_decode_comparable_load")
    ]
    limit = TRAFFIC[Traffic.LOAD].limit
    assert rule["expr"].count(f">= {1 / limit:.3f} <= {limit:g}") == 2
