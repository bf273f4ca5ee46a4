"""Prometheus' own tool reads the rules and runs their tests at the shipped scrape interval."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.contract.promql import needs, promtool, selectors

from .shipped import alerts, rule_files, rule_id

pytestmark = [needs("promtool"), pytest.mark.timeout(180)]

FILES = sorted((Path(__file__).parent / "promtool").glob("*.yml"))
ALERT = re.compile(r'alertname="(\w+)"(?:, kind="(\w+)")?')


def cases_of_alerts():
    """Yield every test of an alert, with the alert and the kind that it is about."""
    for path in FILES:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            found = {ALERT.search(one["expr"]) for one in test["promql_expr_test"]} - {None}
            for name in {" ".join(filter(None, match.groups())) for match in found}:
                yield name, test


def _needed(test, rules):
    """Return the rules of which a test asks, and those that record what they read: an evaluation costs by the rule."""
    expressions = [one["expr"] for one in test["promql_expr_test"]]
    found = [match.groups() for text in expressions if (match := ALERT.search(text))]
    needed = [rule for rule in rules if (rule.get("alert"), rule.get("labels", {}).get("kind")) in found]
    expressions += [rule["expr"] for rule in needed]
    while expressions:
        names = {selector.name for selector in selectors(expressions.pop())}
        more = [rule for rule in rules if rule.get("record") in names and rule not in needed]
        needed += more
        expressions += [rule["expr"] for rule in more]
    return needed


def narrowed(path, folder):
    """Write each test of a file with the rules that it needs, and yield the path of the test."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    read = [(path.parent / name).read_text(encoding="utf-8") for name in document.pop("rule_files")]
    groups = [group for text in read for group in yaml.safe_load(text)["groups"]]
    for number, test in enumerate(document["tests"]):
        needed = _needed(test, [rule for group in groups for rule in group["rules"]])
        kept = [{**group, "rules": [rule for rule in group["rules"] if rule in needed]} for group in groups]
        kept = [group for group in kept if group["rules"]]
        order = [
            name for name in document.get("group_eval_order", ()) if name in {group["name"] for group in kept}
        ]
        rules, tests = (folder / f"{path.stem}-{number}-{kind}.json" for kind in ("rules", "tests"))
        rules.write_text(json.dumps({"groups": kept}), encoding="utf-8")
        own = {"rule_files": [str(rules)], "group_eval_order": order, "tests": [test]}
        tests.write_text(json.dumps(document | own), encoding="utf-8")
        yield tests


def test_prometheus_reads_the_rules():
    status, output = promtool("check", "rules", *rule_files())
    assert (status, output.count("SUCCESS")) == (0, len(rule_files())), output


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_rules_pass_their_tests(path, tmp_path):
    status, output = promtool("test", "rules", *narrowed(path, tmp_path))
    assert status == 0, output


def test_every_alert_of_every_kind_fires_in_a_test_and_is_silent_in_it():
    tested = dict(cases_of_alerts())
    assert set(tested) == {rule_id(alert) for alert in alerts()}
    assert all(one["exp_samples"] for test in tested.values() for one in test["promql_expr_test"])
    assert [name for name, test in tested.items() if '="fine' not in str(test["input_series"])] == []
