"""Shipped rules, alerts and runbooks, and the series that expressions may name."""

import re
from functools import cache

import yaml

from tests.contract.promql import known, labels_of, needs, queries_of, selectors
from tests.paths import CHECKOUT

__all__ = ("PROMETHEUS", "RUNBOOKS", "alerts", "every_series", "needs", "queries_in", "queries_of", "rule_files", "rule_id", "rules", "selectors")  # fmt: skip

PROMETHEUS = CHECKOUT / "config" / "prometheus"
RUNBOOKS = CHECKOUT / "docs" / "runbooks"


def rule_files():
    return sorted([*PROMETHEUS.glob("rules/*.yml"), *PROMETHEUS.glob("alerts/*.yml")])


@cache
def rules():
    """Return every rule of every file."""
    documents = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in rule_files()]
    return [rule for document in documents for group in document["groups"] for rule in group["rules"]]


def alerts():
    return [rule for rule in rules() if "alert" in rule]


def rule_id(alert):
    """Return the name of an alert, with the kind where it has several rules."""
    return " ".join(filter(None, (alert["alert"], alert["labels"].get("kind"))))


def queries_in(template):
    """Return the PromQL that a template of an alert asks, as it reads for an engine called x."""
    asked = re.findall(r'with printf "(.*?)" \$labels', template)
    return [query.replace("%q", '"x"') for query in asked]


@cache
def every_series():
    """Return the labels of every series that there is, including those that rules record."""
    found, left = dict(known()), {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
    while left:
        name = next(name for name in left if all(one.name not in left for one in selectors(left[name])))
        found[name] = labels_of(left.pop(name), found)
    return found
