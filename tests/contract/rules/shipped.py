"""Known metrics and labels, and all shipped expressions."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.metrics.subject import ENGINE, TARGET
from spec_decode_exporter.metrics.table import METRICS
from tests.paths import CHECKOUT, DATA

ROOT = CHECKOUT
PROMETHEUS = ROOT / "config" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"

PLACE = {"cluster", "namespace", "job", "instance"}
"""Labels that Prometheus adds, not the exporter."""
CONFIGURED = {"workload", "arm"}
"""Labels that users give their targets."""


def needs(program):
    """Skip a test, loudly, where a program is not installed; .ci/run installs them all."""
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"{program} is not installed: NOTHING IS PROVEN ABOUT THE RULES"
    )


def own_labels(metric):
    """Return the labels that a row of the metric table has on the page."""
    configured = CONFIGURED if metric.subject in {ENGINE, TARGET} else ()
    return {*metric.subject.labels, *configured, *metric.label_names}


def exported():
    """Return the labels of every sample of the exporter's, by its name."""
    suffixes = {"histogram": {"_bucket": {"le"}, "_sum": set(), "_count": set()}}
    return {
        metric.name + suffix: own_labels(metric) | more
        for metric in METRICS
        for suffix, more in suffixes.get(metric.kind, {"": set()}).items()
    }


def recorded_from_vllm():
    """Return the labels of every sample on the recorded pages of vLLM, by its name."""
    labels = defaultdict(set)
    for page in (DATA / "pages").glob("vllm-0.*.prom"):
        for family in text_string_to_metric_families(page.read_text(encoding="utf-8")):
            for sample in family.samples:
                labels[sample.name] |= set(sample.labels)
    return dict(labels)


def of_prometheus():
    """Return what Prometheus and every Python process add of themselves."""
    process = ProcessCollector(registry=CollectorRegistry())
    own = {sample.name for family in process.collect() for sample in family.samples}
    return {name: set() for name in (*own, "up", "scrape_duration_seconds")}


def rule_files():
    return sorted([*PROMETHEUS.glob("rules/*.yml"), *PROMETHEUS.glob("alerts/*.yml")])


def rules():
    """Return every rule of every file."""
    documents = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in rule_files()]
    return [rule for document in documents for group in document["groups"] for rule in group["rules"]]


def alerts():
    return [rule for rule in rules() if "alert" in rule]


def rule_id(alert):
    """Return the name of an alert, with the kind where it has several rules."""
    return " ".join(filter(None, (alert["alert"], alert["labels"].get("kind"))))


def queries_of(markdown):
    """Return the PromQL of a page: one query a line."""
    blocks = re.findall(r"```promql\n(.*?)\n```", markdown, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def queries_in(template):
    """Return the PromQL that a template of an alert asks, as it reads for an engine called x."""
    asked = re.findall(r'with printf "(.*?)" \$labels', template)
    return [query.replace("%q", '"x"') for query in asked]


def nodes(expression):
    """Return every node of an expression."""
    found = []
    promql_parser.walk(promql_parser.parse(expression), pre_visit=lambda node: found.append(node) and None)
    return found


def selectors(expression):
    """Return every selector of series in an expression."""
    return [node for node in nodes(expression) if isinstance(node, promql_parser.VectorSelector)]


def grouped(expression):
    """Return every label that an expression groups, matches or copies by."""
    labels = set()
    for node in nodes(expression):
        modifier = getattr(node, "modifier", None)
        if isinstance(node, promql_parser.AggregateExpr) and modifier:
            labels |= set(modifier.labels)
        elif isinstance(node, promql_parser.BinaryExpr) and modifier:
            labels |= set(modifier.matching.labels if modifier.matching else ())
            labels |= set(modifier.group_labels or ())
    return labels
