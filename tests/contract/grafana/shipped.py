"""Committed dashboards with their panels and queries, and tests of each of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

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

    def __str__(self) -> str:
        query = [self.target["refId"]] if self.target else []
        return " · ".join([self.board["uid"], self.panel["title"], *query])


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

each_board = every(BOARDS.values(), lambda board: board["uid"])
each_panel = every(PANELS)
each_target = every(TARGETS)
