"""The mixin, evaluated by a Jsonnet: it holds the dashboards, the alerts and the rules as they are."""

from __future__ import annotations

import json

import rjsonnet
import yaml

from grafana.__main__ import FOLDER, ROOT

PROMETHEUS = ROOT.parent / "config" / "prometheus"


def evaluated(expression):
    """Evaluate an expression of ``mixin``; its fields are hidden, as those of every mixin."""
    snippet = f"local mixin = import '{ROOT / 'mixin.libsonnet'}'; {expression}"
    return json.loads(rjsonnet.evaluate_snippet("test.jsonnet", snippet))


def groups(folder):
    paths = sorted(path for path in (PROMETHEUS / folder).glob("*.yml") if path.name != "raw-counters.yml")
    return [group for path in paths for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]


def test_it_has_the_fields_of_a_mixin():
    assert evaluated("std.objectFieldsAll(mixin)") == [
        "grafanaDashboards",
        "prometheusAlerts",
        "prometheusRules",
    ]


def test_its_dashboards_are_the_files():
    shown = evaluated("mixin.grafanaDashboards")
    assert shown == {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.iterdir()}


def test_its_alerts_are_those_of_prometheus():
    assert evaluated("mixin.prometheusAlerts") == {"groups": groups("alerts")}
    assert sum(len(group["rules"]) for group in groups("alerts")) > 30


def test_its_rules_are_those_of_prometheus_without_the_ones_for_raw_counters():
    assert evaluated("mixin.prometheusRules") == {"groups": groups("rules")}


def test_mixins_add_up():
    added = evaluated("(mixin + {prometheusAlerts+:: {groups+: [{name: 'mine'}]}}).prometheusAlerts.groups")
    assert [group["name"] for group in added] == [*(group["name"] for group in groups("alerts")), "mine"]
