"""Rules, alerts and dashboards come out of the chart as they went in, but for what the values change."""

import copy
import json

import pytest
import yaml

from helm import chart_files
from tests.contract.chart.rendering import render

ADVICE = "alerts-advice.yml"
LINK = "dashboard_url"


def groups_of(*names):
    """Return the groups of the shipped files; of all rules and alerts but those that only advise, or of some files."""
    texts = {path: text for path, text in chart_files.copies().items() if path.suffix == ".yml"}
    chosen = [path for path in sorted(texts) if (path.name in names if names else path.name != ADVICE)]
    return [group for path in chosen for group in yaml.load(texts[path], yaml.CSafeLoader)["groups"]]


def without_links(groups):
    changed = copy.deepcopy(groups)
    for group in changed:
        for rule in group["rules"]:
            rule.get("annotations", {}).pop(LINK, None)
    return changed


def made(**settings):
    """Return the groups that the chart makes with these settings of ``prometheusRule``."""
    values = {"prometheusRule": {"enabled": True, **settings}}
    return render(values).one("PrometheusRule")["spec"]["groups"]


def test_rules_are_those_of_the_files_without_links_to_an_unknown_grafana():
    assert made() == without_links(groups_of()) != groups_of()
    names = [group["name"] for group in made(advice=True)]
    assert len(names) == len(set(names)), "the operator keeps one of each name"


def test_alerts_that_only_advise_are_loaded_by_one_value():
    advice = without_links(groups_of(ADVICE))
    assert [one for one in made(advice=True) if one in advice] == advice != []
    assert len(made(advice=True)) == len(groups_of()) + len(advice)


def test_links_to_dashboards_lead_where_the_value_says():
    groups = made(dashboardUrl="https://grafana.example.org/")
    annotations = [rule.get("annotations", {}) for group in groups for rule in group["rules"]]
    links = [one[LINK] for one in annotations if LINK in one]
    assert len(links) > 5
    assert all(link.startswith("https://grafana.example.org/d/") for link in links)
    assert "vllm:spec_decode" not in json.dumps(groups)  # these are for those without an exporter


def test_an_alert_is_changed_by_its_name_and_by_its_kind_before_that():
    groups = made(
        overrides={
            "SpecDecodeTargetDown": {"severity": "info", "for": "15m"},
            "SpecDecodeTargetDown/gone": {"severity": "critical"},
            "SpecDecodeTargetDown/no_engine": {"disabled": True},
        }
    )
    rules = [rule for group in groups for rule in group["rules"]]
    changed = [rule for rule in rules if rule.get("alert") == "SpecDecodeTargetDown"]
    assert {rule["labels"]["kind"]: (rule["labels"]["severity"], rule["for"]) for rule in changed} == {
        "down": ("info", "15m"),
        "gone": ("critical", "15m"),
        "rejected": ("info", "15m"),
    }


def test_every_dashboard_is_a_configmap_that_grafana_finds():
    folder = 'a: "b" {{ c }}'
    values = {"dashboards": {"enabled": True, "annotations": {"grafana_folder": folder}}}
    maps = [one for one in render(values).of("ConfigMap") if "exporter.yml" not in one["data"]]
    assert {one["metadata"]["labels"]["grafana_dashboard"] for one in maps} == {"1"}
    assert {one["metadata"]["annotations"]["grafana_folder"] for one in maps} == {folder}
    boards = {name: text for one in maps for name, text in one["data"].items()}
    sources = {path.name: text for path, text in chart_files.copies().items() if path.suffix == ".json"}
    assert {name: json.loads(text) for name, text in boards.items()} == {
        name: json.loads(text) for name, text in sources.items()
    }
    assert all(len(text) < 1_000_000 for text in boards.values()), "a ConfigMap holds 1 MiB"


@pytest.mark.parametrize("case", ["fleet", "sidecar"])
def test_series_keep_the_labels_of_the_vllm_pod(case):
    endpoint = render(case).endpoint()
    assert (endpoint["honorLabels"], endpoint["port"]) == (True, "spec-decode")
