"""Names and windows that shipped files read: rules, alerts, runbooks, dashboards, integrations, answers to questions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from spec_decode_exporter.metrics.table import METRICS
from tests.contract.grafana import shipped as boards
from tests.contract.integrations.shipped import keda_queries
from tests.contract.rules import shipped as rules
from tests.paths import CHECKOUT

QUESTIONS = CHECKOUT / "docs/guide/questions.md"
SHORT, LONG = "30s", "5m"
"""The default windows, which rules name and the variables of dashboards stand for."""
NAMES = {metric.name for metric in METRICS}
WINDOWED = {metric.name for metric in METRICS if "window" in metric.label_names}


@cache
def used():
    """Return the windows that are read of each used metric; empty for a metric without windows."""
    found = defaultdict(set)
    for name, windows in _used():
        found[name] |= windows
    return dict(found)


def _used() -> Iterator[tuple[str, set[str]]]:
    for rule in rules.rules():
        yield from _selected(rules.selectors(rule["expr"]))
        for text in rule.get("annotations", {}).values():
            yield from _written(re.sub(r"\{\{ \$labels.*?\}\}", '"x"', text))
    for path in rules.RUNBOOKS.glob("*.md"):
        for query in rules.queries_of(path.read_text(encoding="utf-8")):
            yield from _selected(rules.selectors(query))
    for one in boards.TARGETS:
        yield from _selected(boards.selectors(one.expr))
    for board in boards.BOARDS.values():
        for annotation in board.get("annotations", {}).get("list", ()):
            yield from _written(str(annotation.get("expr", "")))
        for variable in board["templating"]["list"]:
            query = str(variable.get("query", ""))
            windows = {SHORT, LONG} if ", window)" in query else set()
            yield from ((name, found | windows) for name, found in _written(query))
    yield from _written(QUESTIONS.read_text(encoding="utf-8"))
    for query in keda_queries().values():
        yield from _selected(rules.selectors(query))


def _written(text) -> Iterator[tuple[str, set[str]]]:
    """Find selectors in a text that is no PromQL: a template, or the function of a variable."""
    for name, matchers in re.findall(r"(?<![:\w])(spec_decode_\w+)(?![:\w])(\{[^}]*\})?", text):
        if _family(name) in NAMES:
            yield _family(name), set(re.findall(r"""\bwindow=['"]+(\w+)""", matchers))


def _selected(selectors) -> Iterator[tuple[str, set[str]]]:
    for selector in selectors:
        name = _family(selector.name)
        if name in NAMES:
            windows = {matcher.value for matcher in selector.matchers.matchers if matcher.name == "window"}
            yield name, windows if name in WINDOWED else set()


def _family(name):
    """Return the name of a histogram for one of its samples."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if base in NAMES else name
