"""Rules, alerts and dashboards come out of the chart as they went in, but for what the values change."""

from __future__ import annotations

import json

import pytest
import yaml

from helm import chart_files


@pytest.fixture(scope="module")
def sources():
    texts = {path: text for path, text in chart_files.copies().items() if path.suffix == ".yml"}
    return [group for path in sorted(texts) for group in yaml.safe_load(texts[path])["groups"]]


def rules(groups):
    return [rule for group in groups for rule in group["rules"]]


def test_rules_are_the_same_but_for_what_the_values_say(render, sources):
    groups = render({"prometheusRule": {"enabled": True}}).one("PrometheusRule")["spec"]["groups"]
    assert [group["name"] for group in groups] == [group["name"] for group in sources]
    assert groups == sources


def test_links_lead_where_the_values_say(render):
    settings = {"enabled": True, "runbookUrl": "https://wiki/r/", "dashboardUrl": "https://grafana"}
    groups = render({"prometheusRule": settings}).one("PrometheusRule")["spec"]["groups"]
    alerts = [rule for rule in rules(groups) if "alert" in rule]
    for one in alerts:
        assert one["annotations"]["runbook_url"] == f"https://wiki/r/{one['alert']}.md"
        assert one["annotations"].get("dashboard_url", "https://grafana/d/").startswith("https://grafana/d/")


def test_runbooks_are_those_that_the_exporter_serves_by_default(render):
    rendered = render({"prometheusRule": {"enabled": True}, "web": {"externalUrl": "https://a.example/x"}})
    alerts = [rule for rule in rules(rendered.one("PrometheusRule")["spec"]["groups"]) if "alert" in rule]
    assert all('label "external_url"' in one["annotations"]["runbook_url"] for one in alerts)
    [container] = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--web.external-url=https://a.example/x" in container["args"]


def test_alerts_are_left_out_and_changed_by_name(render):
    groups = render("fleet").one("PrometheusRule")["spec"]["groups"]
    alerts = {rule["alert"]: rule for rule in rules(groups) if "alert" in rule}
    assert "SpecDecodePollsSlow" not in alerts
    assert alerts["SpecDecodeSlowDrift"]["for"] == "1h"
    assert alerts["SpecDecodeSlowDrift"]["labels"] == {"severity": "info", "team": "serving"}
    assert alerts["SpecDecodeSuddenDrop"]["labels"] == {"severity": "warning", "team": "serving"}


def test_rules_for_those_without_an_exporter_are_not_there(render):
    text = json.dumps(render("fleet").one("PrometheusRule"))
    assert "vllm:spec_decode" not in text


def test_every_dashboard_is_a_configmap_that_grafana_finds(render):
    rendered = render("fleet")
    boards = {
        name: text
        for one in rendered.of("ConfigMap")
        if one["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in one["data"].items()
    }
    sources = {path.name: text for path, text in chart_files.copies().items() if path.suffix == ".json"}
    assert {name: json.loads(text) for name, text in boards.items()} == {
        name: json.loads(text) for name, text in sources.items()
    }
    assert all(len(text) < 1_000_000 for text in boards.values()), "a ConfigMap holds 1 MiB"


def test_fleet_and_sidecars_keep_the_labels_of_the_vllm_pod(render):
    (fleet,) = render("fleet").one("ServiceMonitor")["spec"]["endpoints"]
    (sidecar,) = render("sidecar").one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert fleet["honorLabels"] is True
    assert sidecar["honorLabels"] is True
    assert fleet["port"] == sidecar["port"] == "spec-decode"


def test_sidecars_are_looked_for_where_they_are_injected(render):
    rendered = render(
        {
            "mode": "sidecar",
            "podMonitor": {"enabled": True},
            "sidecar": {"injection": {"enabled": True}, "namespaces": ["a", "b"]},
        }
    )
    monitor = rendered.one("PodMonitor")["spec"]
    binding = rendered.one("MutatingAdmissionPolicyBinding")["spec"]["matchResources"]
    (expression,) = binding["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == monitor["namespaceSelector"]["matchNames"] == ["a", "b"]
    assert binding["objectSelector"] == monitor["selector"]
