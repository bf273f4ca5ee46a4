"""Configurations of other programs below config/, and the queries in them."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config"


def read(path):
    return yaml.safe_load((CONFIG / path).read_text(encoding="utf-8"))


SCALED_OBJECT = read("keda/scaledobject.yaml")
ADAPTER = read("prometheus-adapter/config.yaml")
AUTOSCALER = read("prometheus-adapter/hpa.yaml")
COLLECTOR = read("otel/collector.yaml")
SLO = read("sloth/decoding-pays.yml")

KEDA_MATCHERS = 'namespace="inference", pod=~"vllm-.+"'
"""The engines that config/keda selects."""

SLOTH_WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
"""Windows of the records that Sloth makes of a query; that of 30 days is the mean of the shortest (slok/sloth v0.16.0)."""


def keda_queries():
    """Return the query of each trigger, by its name."""
    return {one["name"]: one["metadata"]["query"] for one in SCALED_OBJECT["spec"]["triggers"]}


def adapter_queries(matchers):
    """Return the query of each external metric, with label matchers as the adapter puts them in."""
    return {
        rule["name"]["as"]: rule["metricsQuery"].replace("<<.LabelMatchers>>", matchers)
        for rule in ADAPTER["externalRules"]
    }


def slo_queries(window):
    """Return the queries of bad and of all events over a window, and their ratio as Sloth records it."""
    events = SLO["slos"][0]["sli"]["events"]
    bad, total = (events[name].replace("{{.window}}", window) for name in ("error_query", "total_query"))
    return {"bad": bad, "total": total, "ratio": f"({bad})\n/\n({total})"}
