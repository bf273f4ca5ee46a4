"""Every query for an autoscaler or an SLO is valid and names series and labels that exist."""

from __future__ import annotations

import promql_parser

from tests.every import every
from tests.rules.test_names import wrong_names

from .shipped import (
    ADAPTER,
    AUTOSCALER,
    KEDA_MATCHERS,
    SCALED_OBJECT,
    SLOTH_WINDOWS,
    adapter_queries,
    keda_queries,
    slo_queries,
)

ADAPTED = adapter_queries(KEDA_MATCHERS)
QUERIES = {
    **keda_queries(),
    **ADAPTED,
    **{f"slo over {one}": slo_queries(one)["ratio"] for one in SLOTH_WINDOWS},
}


@every(QUERIES)
def test_a_query_is_valid(name):
    assert promql_parser.parse(QUERIES[name])


@every(QUERIES)
def test_every_series_and_label_of_a_query_exists(name):
    """``pod`` is a label that discovery gives the targets in Kubernetes."""
    assert [wrong for wrong in wrong_names(QUERIES[name]) if not wrong.endswith("{pod}")] == []


def test_keda_and_the_adapter_ask_the_same():
    asked = [
        [promql_parser.parse(one).prettify() for one in queries.values()]
        for queries in (keda_queries(), ADAPTED)
    ]
    assert asked[0] == asked[1]


def test_keda_and_the_autoscaler_have_the_same_thresholds_and_limits():
    def number(quantity):
        return float(quantity.removesuffix("m")) / (1000 if quantity.endswith("m") else 1)

    ours, theirs = SCALED_OBJECT["spec"], AUTOSCALER["spec"]
    thresholds = [float(one["metadata"]["threshold"]) for one in ours["triggers"]]
    assert thresholds == [number(one["external"]["target"]["value"]) for one in theirs["metrics"]]
    assert (ours["minReplicaCount"], ours["maxReplicaCount"]) == (
        theirs["minReplicas"],
        theirs["maxReplicas"],
    )
    assert ours["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == theirs["behavior"]


def test_the_autoscaler_reads_the_metrics_that_the_adapter_serves():
    served = [rule["name"]["as"] for rule in ADAPTER["externalRules"]]
    assert [one["external"]["metric"]["name"] for one in AUTOSCALER["spec"]["metrics"]] == served


def test_the_adapter_finds_each_metric_by_a_series_that_its_query_reads():
    for rule in ADAPTER["externalRules"]:
        (found,) = [
            matcher.value
            for matcher in promql_parser.parse(rule["seriesQuery"]).matchers.matchers
            if matcher.name == "__name__"
        ]
        assert f"{found}{{" in rule["metricsQuery"]


def test_an_unknown_value_is_an_error_and_not_0():
    """KEDA takes no result as 0 by default, and 0 removes replicas."""
    assert {one["metadata"]["ignoreNullValues"] for one in SCALED_OBJECT["spec"]["triggers"]} == {"false"}
