"""Rules, alerts and dashboards come out of the chart as they went in, but for what the values change."""

from __future__ import annotations

import copy
import json

import yaml

from helm import chart_files

ADVICE = "alerts-advice.yml"

LINK = "dashboard_url"


def groups_of(*names):
    """Return the groups of the shipped files; of all rules and alerts but those that only advise, or of some files."""
    texts = {path: text for path, text in chart_files.copies().items() if path.suffix == ".yml"}
    chosen = [path for path in sorted(texts) if (path.name in names if names else path.name != ADVICE)]
    return [group for path in chosen for group in yaml.safe_load(texts[path])["groups"]]


def rules(groups):
    return [rule for group in groups for rule in group["rules"]]


def without_links(groups):
    changed = copy.deepcopy(groups)
    for rule in rules(changed):
        rule.get("annotations", {}).pop(LINK, None)
    return changed


def test_rules_are_those_of_the_files_without_links_to_an_unknown_grafana(render):
    groups = render({"prometheusRule": {"enabled": True}}).one("PrometheusRule")["spec"]["groups"]
    assert groups == without_links(groups_of())
    assert groups != groups_of()


def test_alerts_that_only_advise_are_loaded_by_one_value(render):
    settings = {"enabled": True, "advice": True}
    groups = render({"prometheusRule": settings}).one("PrometheusRule")["spec"]["groups"]
    advice = without_links(groups_of(ADVICE))
    assert [one for one in groups if one in advice] == advice != []
    assert len(groups) == len(groups_of()) + len(advice)


def test_links_to_dashboards_lead_where_the_value_says(render):
    settings = {"enabled": True, "dashboardUrl": "https://grafana.example.org/"}
    groups = render({"prometheusRule": settings}).one("PrometheusRule")["spec"]["groups"]
    links = [rule["annotations"][LINK] for rule in rules(groups) if LINK in rule.get("annotations", {})]
    assert len(links) > 5
    assert all(link.startswith("https://grafana.example.org/d/") for link in links)
    assert "vllm:spec_decode" not in json.dumps(groups)  # these are for those without an exporter


def test_runbooks_are_those_that_the_exporter_serves(render):
    rendered = render({"prometheusRule": {"enabled": True}, "web": {"externalUrl": "https://a.example/x"}})
    alerts = [rule for rule in rules(rendered.one("PrometheusRule")["spec"]["groups"]) if "alert" in rule]
    assert all('label "external_url"' in one["annotations"]["runbook_url"] for one in alerts)
    [container] = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--web.external-url=https://a.example/x" in container["args"]


def test_alerts_are_left_out_by_name_and_get_labels(render):
    groups = render("fleet").one("PrometheusRule")["spec"]["groups"]
    alerts = {rule["alert"]: rule for rule in rules(groups) if "alert" in rule}
    assert "SpecDecodeNetSlowdown" not in alerts
    assert alerts["SpecDecodeSuddenDrop"]["labels"]["team"] == "serving"
    assert alerts["SpecDecodeSuddenDrop"]["labels"]["severity"] == "warning"


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
