"""Every series and label that a rule, a runbook, a dashboard or an autoscaler names is exported or recorded."""

import re

import pytest

from tests.contract.docs.documents import blocks
from tests.contract.grafana.shipped import BOARDS, TARGETS, each_board, each_panel, each_target, interpolated
from tests.contract.integrations.shipped import keda_queries
from tests.contract.promql import EXPORTED, labels_of, selectors, wrong_name
from tests.contract.rules.shipped import ALERTS, RUNBOOKS, every_series, rules
from tests.every import every

SERIES = every_series()
DISCOVERED = {name: labels | {"pod"} for name, labels in SERIES.items()}
"""Series of engines in Kubernetes, whose pod is a label that discovery gives the target."""
VARIABLES = [
    (board["uid"], variable["name"], *re.fullmatch(r"label_values\((.+), ([$\w]+)\)", variable["definition"]).groups())
    for board in BOARDS.values()
    for variable in board["templating"]["list"]
    if variable["type"] == "query"
]  # fmt: skip
EXPRESSIONS = [
    *((rule.get("record") or rule["alert"], rule["expr"]) for rule in rules()),
    # What the template of an alert asks, as it reads for an engine called x.
    *(
        (alert["alert"], query.replace("%q", '"x"'))
        for alert in ALERTS
        for query in re.findall(r'with printf "(.*?)" \$labels', alert["annotations"]["description"])
    ),
    *(
        (path.stem, query)
        for path in sorted(RUNBOOKS.glob("*.md"))
        for block in blocks(path.read_text("utf-8"), "promql")
        for query in block.splitlines()
    ),
    *((str(target), interpolated(target.target["expr"])) for target in TARGETS),
    *((f"{board} {name}", interpolated(selector)) for board, name, selector, _ in VARIABLES),
]  # fmt: skip


@every(EXPRESSIONS, ": ".join)
def test_every_series_and_label_of_an_expression_exists(named):
    assert wrong_name(named[1], SERIES) is None


@every(keda_queries().values())
def test_every_series_and_label_of_a_query_for_an_autoscaler_exists(query):
    assert wrong_name(query, DISCOVERED) is None


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("rate(spec_decode_draft_total[5m])", "spec_decode_draft_total does not exist"),
        ('spec_decode_state{state="idle",window="5m"}', "spec_decode_state has no window"),
        ("sum by (modell) (spec_decode_state)", "has no modell"),
        ("spec_decode_state * on (target) group_left (methode) spec_decode_engine_info", "has no methode"),
        ('label_replace(up, "to", "$1", "target", "(.+)")', "has no target"),
        ("model:spec_decode_draft:rate5m", "model:spec_decode_draft:rate5m does not exist"),
    ],
)
def test_a_name_that_does_not_exist_is_found(expression, wrong):
    assert wrong_name(expression, SERIES).endswith(wrong)


@each_target
def test_every_label_of_a_legend_is_one_of_its_query(target):
    legend = target.target["legendFormat"]
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels_of(interpolated(target.target["expr"]), SERIES)


@every(VARIABLES, lambda variable: " ".join(variable[:2]))
def test_the_values_of_a_variable_are_those_of_a_label_of_its_series(variable):
    *_, selector, label = variable
    assert interpolated(label) in labels_of(interpolated(selector), SERIES)


@each_board
def test_every_label_in_the_title_of_a_mark_is_one_of_its_query(board):
    for mark in board["annotations"]["list"]:
        labels = labels_of(interpolated(mark["expr"]), SERIES)
        assert set(re.findall(r"\{\{(\w+)\}\}", mark["titleFormat"])) <= labels


@each_panel
def test_the_columns_of_a_table_are_labels_of_its_queries(panel):
    renamed = [
        set(step["options"]["renameByName"])
        for step in panel.panel.get("transformations", ())
        if step["id"] == "organize"
    ]
    queries = [interpolated(target["expr"]) for target in panel.panel["targets"]]
    labels = set().union(*(labels_of(query, SERIES) for query in queries))
    for fields in renamed:
        assert {field for field in fields if not field.startswith("Value")} <= labels


def test_records_are_unique_and_named_level_metric_operations():
    records = [rule["record"] for rule in rules() if "record" in rule]
    assert len(set(records)) == len(records)
    assert all(len(name.split(":")) == 3 and all(name.split(":")) for name in records)


def test_rules_take_ratios_of_counters_and_not_of_gauges_over_a_window():
    """Means of ratios weight an idle engine like a busy one.

    The ratio of a position says only that the position is drafted; a speed-up is weighted by the time decoded.
    The mask of a nightly job compares an engine's length with the same engine's lowest of yesterday.
    """
    windowed = {name for name, labels in EXPORTED.items() if "window" in labels} - {
        "spec_decode_time_per_output_token_quantile_seconds",
        "spec_decode_position_acceptance_ratio",
        "spec_decode_estimated_speedup_ratio",
        "spec_decode_window_decode_seconds",
    }
    masks = {"engine:spec_decode_sudden_drop:avg2m"}
    records = [rule for rule in rules() if rule.get("record", *masks) not in masks]
    used = {selector.name for rule in records for selector in selectors(rule["expr"])}
    assert used & windowed == set()
