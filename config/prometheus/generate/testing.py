"""The tests of the rules, written as promtool reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from config.prometheus.generate import recording
from config.prometheus.generate.alerts import ALERTS, FILES
from config.prometheus.generate.case import AlertCase, Firing, RuleCase, inputs, moment
from config.prometheus.generate.cases import ALERT_CASES, RULE_CASES, SILENT
from config.prometheus.generate.output import GENERATED, dashboard_url, dump, query, runbook_url
from config.prometheus.generate.rule import Alert
from config.prometheus.generate.settings import Settings, filled

INTERVAL: Final = 15
"""Seconds between scrapes in the tests that are committed."""

_LONG: Final = 600.0
"""Tests of more minutes than this are evaluated seldom, and scraped once a minute at the most."""

_BY_NAME: Final = {alert.name: alert for alert in ALERTS}
_FILE_OF: Final = {rule.name: file.name for file in FILES for rule in file.alerts}


def promtool_tests(settings: Settings, interval: int = INTERVAL) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every file of tests, with series scraped every ``interval`` seconds."""
    recorded = {
        rule.record: f"rules/{file.name}" for file in recording.files(settings) for rule in file.recordings
    }
    for name, rules, cases in _alert_files(recorded):
        long = "days" in name
        written = _alert_tests(cases, max(interval, 60) if long else interval, settings)
        yield f"tests/{name}.yml", _file(rules, "5m" if long else "30s", written)
    every = {path for name, path in recorded.items() if any(name in alert.expr for alert in ALERTS)}
    rules = (*sorted(every), *(f"alerts/{file.name}" for file in FILES))
    yield "tests/silence.yml", _file(rules, "2m", _silent_tests(interval))
    for name, rule_cases in RULE_CASES.items():
        written = [_rule_test(case, interval) for case in rule_cases]
        yield f"tests/rules-{name}.yml", _file((f"rules/{name}",), "1m", written)


def _alert_files(recorded: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...], list[AlertCase]]]:
    """Yield name, rules and cases of each file: cases that need the same rules, and about as much time."""
    files: dict[tuple[str, ...], list[AlertCase]] = {}
    for case in ALERT_CASES:
        alert = _BY_NAME[case.alert]
        needed = {path for name, path in recorded.items() if name in alert.expr}
        days = ("days",) if case.at > _LONG else ()
        files.setdefault((*sorted(needed), f"alerts/{_FILE_OF[case.alert]}", *days), []).append(case)
    for key, cases in files.items():
        name = "-".join(part.split("/")[-1] for part in dict.fromkeys(reversed(key)))
        yield "alerts-" + name, tuple(part for part in key if part != "days"), cases


def _file(rules: tuple[str, ...], evaluation: str, tests: list[dict[str, Any]]) -> str:
    document = {
        "rule_files": [f"../{name}.yml" for name in rules],
        "evaluation_interval": evaluation,
        "tests": tests,
    }
    return f"{GENERATED}\n{dump(document)}"


def _alert_tests(cases: list[AlertCase], interval: int, settings: Settings) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{case.alert}: {case.title}",
            "interval": f"{interval}s",
            "input_series": inputs(case.series, interval),
            "alert_rule_test": [_expectation(case, settings)],
        }
        for case in cases
    ]


def _expectation(case: AlertCase, settings: Settings) -> dict[str, Any]:
    alert = _BY_NAME[case.alert]
    severity = settings.alerts[case.alert]["severity"]
    return {
        "eval_time": moment(case.at),
        "alertname": case.alert,
        "exp_alerts": [
            {
                "exp_labels": {"severity": severity, **firing.labels},
                "exp_annotations": {
                    "summary": alert.summary,
                    "description": f"{firing.description} {_action(alert, firing, settings)}",
                    "query": _with_labels(query(alert), firing.labels, '"{}"'),
                    "runbook_url": _served_runbook(case, firing, settings),
                    "dashboard_url": _opened(alert, firing.labels, settings),
                },
            }
            for firing in case.fires
        ],
    }


def _served_runbook(case: AlertCase, firing: Firing, settings: Settings) -> str:
    """Return the address of the runbook as a reader gets it."""
    if settings.runbooks:
        return runbook_url(_BY_NAME[case.alert], settings)
    return f"{firing.exporter}/docs/runbooks/{case.alert}.md"


def _action(alert: Alert, firing: Firing, settings: Settings) -> str:
    """Return the action as a reader gets it."""
    own = filled(alert.action, {**settings.common, **settings.alerts[alert.name]})
    action = firing.action or _with_labels(own, firing.labels, "{}")
    if "{{" in action:
        raise ValueError(f"{alert.name}: the case needs the action with its values")
    return action


def _with_labels(template: str, labels: Mapping[str, str], form: str) -> str:
    return re.sub(
        r'{{ \$labels\.(\w+)(?: \| printf "%q")? }}',
        lambda match: form.format(labels[match[1]]),
        template,
    )


def _opened(alert: Alert, labels: Mapping[str, str], settings: Settings) -> str:
    """Return the address of the dashboard as a reader gets it."""
    return re.sub(
        r"{{ \$labels\.(\w+) \| urlquery }}",
        lambda match: quote_plus(labels.get(match[1], "")),
        dashboard_url(alert, settings),
    )


def _silent_tests(interval: int) -> list[dict[str, Any]]:
    """Return one test for each situation in which no alert may fire, but those that say so."""
    return [
        {
            "name": situation.title,
            "interval": f"{interval}s",
            "input_series": inputs(situation.series, interval),
            "alert_rule_test": [
                {"eval_time": moment(situation.at), "alertname": alert.name, "exp_alerts": []}
                for alert in ALERTS
                if alert.name not in situation.but
            ],
        }
        for situation in SILENT
    ]


def _rule_test(case: RuleCase, interval: int) -> dict[str, Any]:
    return {
        "name": case.title,
        "interval": f"{interval}s",
        "input_series": inputs(case.series, interval),
        "promql_expr_test": [
            {
                "expr": expr,
                "eval_time": moment(case.at),
                "exp_samples": [
                    {"labels": _labels(sample.labels), "value": sample.value} for sample in samples
                ],
            }
            for expr, samples in case.expects.items()
        ],
    }


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
