"""Rules, written as Prometheus reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from config.prometheus.generate import recording
from config.prometheus.generate.alerts import FILES
from config.prometheus.generate.rule import Alert, File, Recording, expression
from config.prometheus.generate.settings import Settings, filled

GENERATED: Final = (
    "# Written by `python -m config.prometheus.generate`. Change settings.yml, or the tables in generate/."
)

_RUNBOOKS: Final = Path(__file__).parents[3] / "docs" / "runbooks"
_QUERIES: Final = re.compile(r"^```promql\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLACEHOLDER: Final = re.compile(r'(\w+)="[A-Z_]{3,}"')
"""A label whose value a reader of a runbook fills in, as in ``target="TARGET"``."""

_EXPORTER_URL: Final = (
    '{{ with query "spec_decode_exporter_web_info" }}{{ . | first | label "external_url" }}'
    '{{ else }}http://{{ with query "spec_decode_exporter_build_info" }}{{ . | first | label "instance" }}'
    "{{ else }}localhost:7732{{ end }}{{ end }}"
)
"""Address of an exporter: each serves the same runbooks, whichever an alert is about."""

_SLOW: Final = frozenset({"spec-decode-peers", "spec-decode-arms"})
"""Groups whose rates are over half an hour and more: to evaluate them once a minute is enough."""


def rule_files(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every file of rules, below config/prometheus."""
    for file in recording.files(settings):
        yield f"rules/{file.name}.yml", _text(file, settings)
    for file in FILES:
        yield f"alerts/{file.name}.yml", _text(file, settings)


def _text(file: File, settings: Settings) -> str:
    about = "\n".join(f"# {line}".rstrip() for line in file.about.splitlines())
    groups = [_group(name, rules, settings) for name, rules in file.groups.items()]
    return f"{GENERATED}\n#\n{about}\n{dump({'groups': groups})}"


def _group(name: str, rules: Sequence[Recording | Alert], settings: Settings) -> dict[str, object]:
    slow = {"interval": "1m"} if name in _SLOW else {}
    return {"name": name, **slow, "rules": [_rule(rule, settings) for rule in rules]}


def _rule(rule: Recording | Alert, settings: Settings) -> dict[str, object]:
    if isinstance(rule, Recording):
        return {"record": rule.record, "expr": filled(expression(rule.expr), settings.common)}
    own = settings.alerts[rule.name]
    values = {**settings.common, **own}
    durations = {key: own[key] for key in ("for", "keep_firing_for") if key in own}
    return {
        "alert": rule.name,
        "expr": filled(expression(rule.expr), values),
        **durations,
        "labels": {"severity": own["severity"]},
        "annotations": {
            "summary": rule.summary,
            "description": filled(f"{rule.description} {rule.action}", values),
            "query": query(rule),
            "runbook_url": runbook_url(rule, settings),
            "dashboard_url": dashboard_url(rule, settings),
        },
    }


def query(alert: Alert) -> str:
    """Return the queries of the alert's runbook, a line each, with the labels of the alert filled in."""
    runbook = (_RUNBOOKS / f"{alert.name}.md").read_text(encoding="utf-8")
    lines = (line for block in _QUERIES.findall(runbook) for line in block.splitlines())
    return "\n".join(_PLACEHOLDER.sub(r'\1={{ $labels.\1 | printf "%q" }}', line) for line in lines)


def runbook_url(alert: Alert, settings: Settings) -> str:
    """Return the template of the address of the alert's runbook: public, or served by an exporter."""
    if settings.runbooks:
        return f"{settings.runbooks.rstrip('/')}/{alert.name}.md"
    return f"{_EXPORTER_URL}/docs/runbooks/{alert.name}.md"


def dashboard_url(alert: Alert, settings: Settings) -> str:
    """Return the template of the address of the alert's dashboard, opened for what the alert is about."""
    query = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in alert.variables)
    return f"{settings.dashboards}/d/{alert.dashboard}" + (f"?{query}" if query else "")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are read."""


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _string)


def dump(document: dict[str, Any]) -> str:
    """Return a document as YAML."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
