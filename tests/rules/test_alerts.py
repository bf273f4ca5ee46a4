"""Every alert says what a reader needs."""

from __future__ import annotations

import re
from dataclasses import replace

import promql_parser

from config.prometheus.generate.alerts import FILES
from config.prometheus.generate.output import runbook_url
from config.prometheus.generate.settings import filled
from tests.every import every

from .shipped import SETTINGS, alerts, nodes

ALERTS = alerts()
DASHBOARDS = {
    "spec-decode-overview",
    "spec-decode-engine",
    "spec-decode-experiments",
    "spec-decode-requests",
    "spec-decode-exporter",
}

each = every(ALERTS, lambda alert: alert["alert"])


def test_names_are_unique_and_begin_alike():
    names = [alert["alert"] for alert in ALERTS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"SpecDecode([A-Z][a-z]+)+", name) for name in names)


@each
def test_the_severity_is_one_of_three(alert):
    assert alert["labels"] == {"severity": alert["labels"]["severity"]}
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}


@each
def test_the_summary_is_one_sentence_without_templates(alert):
    summary = alert["annotations"]["summary"]
    assert summary.endswith(".")
    assert "{{" not in summary
    assert ". " not in summary


@each
def test_the_description_names_what_is_affected(alert):
    description = alert["annotations"]["description"]
    assert description.endswith(".")
    assert "{{ $labels." in description or alert["alert"] == "SpecDecodeExporterAbsent"


@each
def test_there_are_a_runbook_and_a_dashboard(alert):
    annotations = alert["annotations"]
    assert annotations["runbook_url"].endswith(f"/docs/runbooks/{alert['alert']}.md")
    assert '"external_url"' in annotations["runbook_url"]
    start, _, rest = annotations["dashboard_url"].partition("/d/")
    assert start == SETTINGS.dashboards
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


@each
def test_a_description_holds_numbers_wherever_there_are_any(alert):
    """A state without a number is all that these have to say."""
    without = {
        "SpecDecodeTargetDown",
        "SpecDecodeTargetWithoutEngine",
        "SpecDecodeCountersInconsistent",
        "SpecDecodeExporterDown",
        "SpecDecodeExporterAbsent",
        "SpecDecodeReloadFailed",
    }
    description = alert["annotations"]["description"]
    assert ("$value" in description or "| value" in description) == (alert["alert"] not in without)


def test_only_alerts_for_which_somebody_gets_up_are_critical():
    critical = {alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "critical"}
    assert critical == {"SpecDecodeTargetDown", "SpecDecodeModelAcceptanceDropped"}


@each
def test_the_description_ends_with_the_action(alert):
    rule = next(rule for file in FILES for rule in file.alerts if rule.name == alert["alert"])
    action = filled(rule.action, {**SETTINGS.common, **SETTINGS.alerts[rule.name]})
    assert alert["annotations"]["description"].endswith(f". {action}")
    assert re.match(r"[A-Z]|{{ with printf", action)


@each
def test_the_queries_of_the_runbook_come_with_the_labels_of_the_alert(alert):
    queries = alert["annotations"]["query"].splitlines()
    assert queries
    for query in queries:
        assert promql_parser.parse(re.sub(r"{{ \$labels\.\w+ \| printf \"%q\" }}", '"x"', query))
        assert not re.search(r'="[A-Z_]{3,}"', query)


def test_a_public_address_of_the_runbooks_replaces_that_of_the_exporter():
    [rule] = [rule for file in FILES for rule in file.alerts if rule.name == "SpecDecodeSuddenDrop"]
    public = replace(SETTINGS, runbooks="https://wiki/r/")
    assert runbook_url(rule, public) == "https://wiki/r/SpecDecodeSuddenDrop.md"
