"""Committed dashboards with their panels and queries, tests of each of them, and a PromQL reader."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import promql_parser as promql

from tests.every import every
from tests.paths import CHECKOUT

FOLDER = CHECKOUT / "grafana" / "dashboards"
BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}

SUBSTITUTES = {"__rate_interval": "1m", "__range": "1h", "compare": "arm", "short": "30s", "long": "5m"}
"""Values of Grafana's variables; all others are inside strings, where any value works."""


@dataclass(frozen=True)
class One:
    """A panel or query with its dashboard."""

    board: dict[str, Any]
    panel: dict[str, Any]
    target: dict[str, Any] | None = None

    @property
    def expr(self) -> str:
        return self.target["expr"]


def panels_of(board, *, rows=False):
    """Return a dashboard's panels, including those of collapsed rows."""
    for panel in board["panels"]:
        if rows or panel["type"] != "row":
            yield panel
        yield from panel.get("panels", ())


def interpolated(text):
    """Return the text with all variables replaced; ``$1`` is not a variable."""
    return re.sub(r"\$\{?([a-zA-Z_]\w*)\}?", lambda found: SUBSTITUTES.get(found[1], "any"), text)


PANELS = [One(board, panel) for board in BOARDS.values() for panel in panels_of(board)]
TARGETS = [One(one.board, one.panel, target) for one in PANELS for target in one.panel["targets"]]


def _name(one):
    parts = [one.board["uid"], one.panel["title"], *([one.target["refId"]] if one.target else [])]
    return " · ".join(parts)


each_board = every(BOARDS.values(), lambda board: board["uid"])
each_panel = every(PANELS, _name)
each_target = every(TARGETS, _name)


def parse(expr):
    return promql.parse(interpolated(expr))


def nodes(expr):
    """Return every node of an expression with its ancestors, the outermost first."""
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
