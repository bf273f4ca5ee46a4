"""Every committed dashboard, panel and query, one test each; and what may stand in a query."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest

FOLDER = Path(__file__).parents[2] / "grafana" / "dashboards"
BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}

SUBSTITUTES = {"__rate_interval": "1m", "__range": "1h", "compare": "arm", "short": "30s", "long": "5m"}
"""What Grafana puts in the place of a variable; others stand in strings, where any value will do."""


@dataclass(frozen=True)
class One:
    """A panel or query with the dashboard that it is in."""

    board: dict[str, Any]
    panel: dict[str, Any]
    target: dict[str, Any] | None = None

    @property
    def expr(self) -> str:
        return self.target["expr"]


def panels_of(board, *, rows=False):
    """Return a dashboard's panels, those of collapsed rows included."""
    for panel in board["panels"]:
        if rows or panel["type"] != "row":
            yield panel
        yield from panel.get("panels", ())


def interpolated(text):
    """Return the text with all variables replaced; ``$1`` is no variable."""
    return re.sub(r"\$\{?([a-zA-Z_]\w*)\}?", lambda found: SUBSTITUTES.get(found[1], "any"), text)


PANELS = [One(board, panel) for board in BOARDS.values() for panel in panels_of(board)]
TARGETS = [One(one.board, one.panel, target) for one in PANELS for target in one.panel["targets"]]


def _name(one):
    parts = [one.board["uid"], one.panel["title"], *([one.target["refId"]] if one.target else [])]
    return " · ".join(parts)


def pytest_generate_tests(metafunc):
    wanted = metafunc.fixturenames
    if "board" in wanted:
        metafunc.parametrize("board", BOARDS.values(), ids=list(BOARDS))
    if "panel" in wanted:
        metafunc.parametrize("panel", PANELS, ids=_name)
    if "target" in wanted:
        metafunc.parametrize("target", TARGETS, ids=_name)


def parse(expr):
    return promql.parse(interpolated(expr))


def nodes(expr):
    """Return every node of an expression with those above it, the outermost first."""
    found = []

    def visit(node, above):
        found.append((node, above))
        for child in children(node):
            visit(child, (*above, node))

    visit(parse(expr) if isinstance(expr, str) else expr, ())
    return found


def children(node):
    match node:
        case promql.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql.AggregateExpr():
            return [node.expr, *([node.param] if node.param is not None else [])]
        case promql.Call():
            return list(node.args)
        case promql.MatrixSelector():
            return [node.vector_selector]
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return [node.expr]
    return []


def selectors(expr):
    """Return the selectors of an expression."""
    return [node for node, _ in nodes(expr) if isinstance(node, promql.VectorSelector)]


@pytest.fixture
def tools():
    """The functions of this file, for tests cannot import a conftest."""
    import sys

    return sys.modules[__name__]
