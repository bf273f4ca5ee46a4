"""Prometheus' own tool reads the rules, and finds when each alert fires and ends, at the shipped scrape interval."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.contract.promql import needs, promtool, selectors

from .shipped import ALERTS, GROUPS, RULE_FILES, rule_id

pytestmark = [needs("promtool"), pytest.mark.timeout(180)]

HERE = Path(__file__).parent
CASES = {
    title: (
        next(alert for alert in ALERTS if f"{title} ".startswith(f"{rule_id(alert)} ")),
        case,
        group["clock"],
    )
    # Everything is text: 0x239 is no number.
    for group in yaml.load((HERE / "alerts.yml").read_text(encoding="utf-8"), yaml.BaseLoader).values()
    for title, case in group["alerts"].items()
}
"""Alert, case and the clock that it goes by, by a title that begins with the name and the kind of the alert."""
MOMENTS = {"min": "begin", "max": "end"}
"""The first moment at which an alert fires counts from the begin of what is wrong, the last one from the end."""


def needed(alert):
    """Return the groups with this alert alone, and with the rules that record what it reads: each costs time."""
    rules, expressions = [alert], [alert["expr"]]
    while expressions:
        names = {selector.name for selector in selectors(expressions.pop())}
        every = (rule for group in GROUPS for rule in group["rules"])
        more = [rule for rule in every if rule.get("record") in names and rule not in rules]
        rules += more
        expressions += [rule["expr"] for rule in more]
    kept = [{**group, "rules": [rule for rule in group["rules"] if rule in rules]} for group in GROUPS]
    return [group for group in kept if group["rules"]]


def labelled(case, subject, *more):
    """Return more labels, and that of a column; where one is not enough, it has its labels itself."""
    own = subject if not subject or "=" in subject else f'{case.get("by", "target")}="{subject}"'
    return ", ".join(filter(None, (*more, own)))


def series_of(case):
    """Yield the series of a case and their values."""
    for metric, row in case["series"].items():
        name, _, labels = metric.partition("{")
        for subject, values in row.items():
            yield f"{name}{{{labelled(case, subject, labels.rstrip('}'))}}}", values


def asked_of(alert, case, clock):
    """Return promtool's test of a case."""
    kinds = [f'kind="{alert["labels"]["kind"]}"'] if "kind" in alert["labels"] else []
    own = ", ".join([f'alertname="{alert["alert"]}"', *kinds, 'alertstate="firing"'])
    fired = f"timestamp(ALERTS{{{own}}})[{clock['over']}:{clock['interval']}]"
    moments = list(MOMENTS.items())[: max(map(len, case["fires"].values()))]
    return {
        "interval": clock["interval"],
        "input_series": [{"series": name, "values": values} for name, values in series_of(case)],
        "promql_expr_test": [
            {
                "expr": f"{which} by (kind, model_name, instance, target) ({which}_over_time({fired}))"
                f" - {clock[moment]}",
                "eval_time": clock["last"],
                "exp_samples": [
                    {"labels": f"{{{labelled(case, subject, *kinds)}}}", "value": int(seconds[number])}
                    for subject, seconds in case["fires"].items()
                ],
            }
            for number, (which, moment) in enumerate(moments)
        ],
    }


def test_prometheus_reads_the_rules():
    status, output = promtool("check", "rules", *RULE_FILES)
    assert (status, output.count("SUCCESS")) == (0, len(RULE_FILES)), output


@pytest.mark.slow
@pytest.mark.parametrize("title", CASES)
def test_an_alert_fires_and_ends_when_it_should(title, tmp_path):
    alert, case, clock = CASES[title]
    kept = needed(alert)
    (tmp_path / "rules.json").write_text(json.dumps({"groups": kept}), encoding="utf-8")
    document = {
        "rule_files": ["rules.json"],
        "evaluation_interval": clock["interval"],
        "group_eval_order": [group["name"] for group in kept],
        "tests": [asked_of(alert, case, clock)],
    }
    (tmp_path / "test.json").write_text(json.dumps(document), encoding="utf-8")
    status, output = promtool("test", "rules", tmp_path / "test.json")
    assert status == 0, output


def test_the_description_of_a_drop_names_the_engine_and_says_how_far_it_dropped(tmp_path):
    labels = {"target": "chat", "model_name": "llama", "engine": "0", "instance": "gpu-1:7732"}
    own = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    alert = next(alert for alert in ALERTS if rule_id(alert) == "SpecDecodeSuddenDrop sudden")
    template = alert["annotations"]["description"]
    groups = json.loads(json.dumps(needed(alert)))
    groups[-1]["rules"][-1]["annotations"] = {"description": template}
    (tmp_path / "rules.json").write_text(json.dumps({"groups": groups}), encoding="utf-8")
    numbers = iter(("1.40", "2.50"))
    said = re.sub(r"{{ with .*?{{ end }}", lambda _: next(numbers), template)
    said = re.sub(r"{{ \$labels\.(\w+) }}", lambda name: labels[name[1]], said)
    shown = {"exp_labels": {**labels, **alert["labels"]}, "exp_annotations": {"description": said}}
    values = {
        f'spec_decode_acceptance_dropped{{kind="sudden", {own}}}': "1x40",
        f'spec_decode_acceptance_length_tokens{{window="30s", {own}}}': "1.4x40",
        f"spec_decode_baseline_acceptance_length_tokens{{{own}}}": "2.5x40",
    }
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": text} for name, text in values.items()],
        "alert_rule_test": [{"eval_time": "5m", "alertname": alert["alert"], "exp_alerts": [shown]}],
    }
    document = {"rule_files": ["rules.json"], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.json").write_text(json.dumps(document), encoding="utf-8")
    status, output = promtool("test", "rules", tmp_path / "test.json")
    assert status == 0, output


@pytest.mark.slow
def test_recorded_ratios_are_ratios_of_sums():
    status, output = promtool("test", "rules", HERE / "records.yml")
    assert status == 0, output


def test_every_alert_of_every_kind_fires_in_a_case_and_is_silent_in_it():
    assert {rule_id(alert) for alert, _, _ in CASES.values()} == {rule_id(alert) for alert in ALERTS}
    assert all(case["fires"] for _, case, _ in CASES.values())
    assert [title for title, (_, case, _) in CASES.items() if '="fine' not in str([*series_of(case)])] == []
