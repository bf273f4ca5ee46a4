"""Metrics and labels of queries, legends, variables and marks are exported."""

from __future__ import annotations

import re

import promql_parser as promql
import pytest

from spec_decode_exporter.metrics.subject import ENGINE, TARGET
from spec_decode_exporter.metrics.table import METRICS

from .shipped import each_board, each_panel, each_target, interpolated, parse

SCRAPED = {"job", "instance", "cluster", "namespace"}
"""Labels that Prometheus adds to every series; the last two by configuration."""

ARM = {"arm"}
"""The label of an experiment: a target's configured label, or one of Prometheus' relabelling. The dashboard takes any."""

OTHERS = {
    "up": set(),
    "scrape_samples_scraped": set(),
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    "ALERTS": {"alertname", "alertstate", "severity", "target", "model_name", "engine"},
    "ALERTS_FOR_STATE": {"alertname", "severity", "target", "model_name", "engine"},
}
"""Series of Prometheus and of the client library, with the labels that we use of them."""


def _known():
    """Return the labels of every series, by name."""
    known = {name: labels | SCRAPED for name, labels in OTHERS.items()}
    for metric in METRICS:
        own = {*metric.subject.labels, *metric.label_names, *SCRAPED}
        if metric.subject in {ENGINE, TARGET}:
            own |= ARM
        if metric.kind == "histogram":
            known |= {
                f"{metric.name}_bucket": own | {"le"},
                f"{metric.name}_sum": own,
                f"{metric.name}_count": own,
            }
        else:
            known[metric.name] = own
    return known


KNOWN = _known()


def labels_of(node):
    """Return the labels that an expression's series can have; fail where it names one that its operand lacks."""
    match node:
        case promql.VectorSelector():
            matched = {one.name for one in node.matchers.matchers}
            assert node.name in KNOWN, f"{node.name} is not exported"
            assert matched <= KNOWN[node.name], f"{node.name} has no {matched - KNOWN[node.name]}"
            return KNOWN[node.name]
        case promql.MatrixSelector():
            return labels_of(node.vector_selector)
        case promql.ParenExpr() | promql.UnaryExpr():
            return labels_of(node.expr)
        case promql.AggregateExpr():
            return _aggregated(node)
        case promql.BinaryExpr():
            return _combined(node)
        case promql.Call() if node.func.name == "label_replace":
            inner, name, _, source, _ = node.args
            assert {source.val} - {""} <= labels_of(inner)
            return labels_of(inner) | {name.val}
        case promql.Call():
            return set().union(*(labels_of(argument) for argument in node.args))
    return set()


def _aggregated(node):
    inner = labels_of(node.expr)
    if str(node.op) == "count_values":
        return {node.param.val}
    if node.modifier is None:
        return set()
    named = set(node.modifier.labels)
    assert named <= inner, f"aggregated by {named - inner}, which {node.expr} lacks"
    return named if node.modifier.type == promql.AggModifierType.By else inner - named


def _combined(node):
    left, right = labels_of(node.lhs), labels_of(node.rhs)
    matching = node.modifier.matching if node.modifier else None
    named = set(matching.labels) if matching else set()
    assert named <= left | right
    if str(node.op) == "or":
        return left | right
    grouped = node.modifier and str(node.modifier.card)
    return right if grouped and "OneToMany" in grouped else left or right


def test_the_labels_of_an_expression_are_found():
    parse = promql.parse
    assert labels_of(parse("up")) == SCRAPED
    assert labels_of(
        parse('sum by (reason) (rate(spec_decode_exporter_poll_failures_total{target="x"}[1m]))')
    ) == {"reason"}
    assert labels_of(parse('label_replace(up, "to", "$1", "job", "(.+)")')) == {"to", *SCRAPED}
    assert labels_of(parse("max(up)")) == set()


@pytest.mark.parametrize(
    "wrong",
    [
        "spec_decode_acceptance_ratio",
        'spec_decode_drafts_total{window="30s"}',
        "sum by (position) (rate(spec_decode_drafts_total[1m]))",
        'label_replace(up, "to", "$1", "target", "(.+)")',
        "up / on (engine) up",
    ],
)
def test_unknown_metrics_and_labels_are_found(wrong):
    with pytest.raises(AssertionError):
        labels_of(promql.parse(wrong))


@each_target
def test_every_metric_and_label_of_a_query_exists(target):
    labels_of(parse(target.expr))


@each_target
def test_every_label_of_a_legend_exists(target):
    legend = target.target["legendFormat"]
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels_of(parse(target.expr))


@each_target
def test_every_series_of_a_graph_has_a_name(target):
    if target.target["format"] != "table":
        assert target.target["legendFormat"] != "__auto" or len(target.panel["targets"]) == 1


@each_board
def test_every_metric_and_label_of_a_variable_exists(board):
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.+), ([$\w]+)\)", variable["definition"]).groups()
            assert interpolated(label) in labels_of(parse(selector))


@each_board
def test_every_metric_and_label_of_a_mark_exists(board):
    for mark in board["annotations"]["list"]:
        labels = labels_of(parse(mark["expr"]))
        named = set(re.findall(r"\{\{(\w+)\}\}", mark["titleFormat"]))
        assert named <= labels


@each_panel
def test_tables_show_the_labels_that_their_queries_have(panel):
    renamed = [
        set(step["options"]["renameByName"])
        for step in panel.panel.get("transformations", ())
        if step["id"] == "organize"
    ]
    labels = set().union(*(labels_of(parse(target["expr"])) for target in panel.panel["targets"]))
    for fields in renamed:
        assert {field for field in fields if not field.startswith("Value")} <= labels
