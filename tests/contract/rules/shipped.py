"""Shipped rules, alerts and runbooks, and the series that expressions may name."""

from collections import defaultdict
from functools import cache

import yaml
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.promql import EXPORTED, labels_of, selectors
from tests.paths import CHECKOUT, DATA

PROMETHEUS = CHECKOUT / "config" / "prometheus"
RUNBOOKS = CHECKOUT / "docs" / "runbooks"
RULE_FILES = sorted([*PROMETHEUS.glob("rules/*.yml"), *PROMETHEUS.glob("alerts/*.yml")], reverse=True)
GROUPS = [group for path in RULE_FILES for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
"""The groups of all rules, those that record before those that alert."""
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]

_PLACE = {"cluster", "namespace", "job", "instance"}  # labels that Prometheus adds, not the exporter
_ALERT = {"alertname", "severity", "target", "model_name", "engine"}


def rules():
    """Return every rule of every file."""
    return [rule for group in GROUPS for rule in group["rules"]]


def rule_id(alert):
    """Return the name of an alert, with the kind where it has several rules."""
    return " ".join(filter(None, (alert["alert"], alert["labels"].get("kind"))))


@cache
def every_series():
    """Return the labels of every series that a rule records, or the exporter, vLLM, Prometheus or a Python process exports."""
    labels = defaultdict(set, EXPORTED)
    for page in (DATA / "pages").glob("vllm-0.*.prom"):
        for family in text_string_to_metric_families(page.read_text(encoding="utf-8")):
            for sample in family.samples:
                labels[sample.name] = labels[sample.name] | set(sample.labels)
    for family in ProcessCollector(registry=CollectorRegistry()).collect():
        labels |= {sample.name: set() for sample in family.samples}
    labels |= {name: set() for name in ("up", "scrape_duration_seconds", "scrape_samples_scraped")}
    labels |= {"ALERTS": {*_ALERT, "alertstate"}, "ALERTS_FOR_STATE": _ALERT}
    found = {name: own | _PLACE for name, own in labels.items()}
    left = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
    while left:
        name = next(name for name in left if all(one.name not in left for one in selectors(left[name])))
        found[name] = labels_of(left.pop(name), found)
    return found
