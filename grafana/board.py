"""Frame of every dashboard: links, marks on graphs, and places of panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from grafana.panels import Panel
from grafana.promql import FIRING, Scope, alerts
from grafana.style import Colour
from grafana.variables import DATASOURCE, FILTERS, JOB, SOURCE, Variable

TAG = "spec-decode"
WIDTH = 24
"""Grafana's grid."""

Sections = Mapping[str, Sequence[Sequence[Panel]]]
"""Rows of panels by their heading; the first section of a dashboard has none."""
_NO_SECTIONS: Sections = {}
Mark = dict[str, Any]
"""An annotation, as Grafana's JSON has it."""


def row(height: int, *panels: Panel, widths: Sequence[int] = ()) -> list[Panel]:
    """Return panels side by side with their places, equally wide where no widths are given."""
    widths = widths or [WIDTH // len(panels)] * len(panels)
    places = zip(panels, widths, accumulate(widths, initial=0), strict=False)
    return [{**panel, "gridPos": {"h": height, "w": width, "x": x}} for panel, width, x in places]


def mark(name: str, expr: str, title: str, colour: Colour) -> Mark:
    """Return an event that is drawn as a vertical line on every graph."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": expr,
        "titleFormat": title,
        "textFormat": "{{target}} {{model_name}} {{engine}}",
    }


_LINKS = [
    {
        "title": title,
        "type": "dashboards",
        "tags": [tag],
        "asDropdown": not same_variables,
        "includeVars": same_variables,
        "keepTime": True,
    }
    for title, tag, same_variables in (("Speculative decoding", TAG, True), ("vLLM", "vllm", False))
]
"""To all dashboards with a tag."""


def _arranged(opened: Sections, collapsed: Sections) -> Iterator[Panel]:
    """Yield headings and panels from the top down; a collapsed section is within its heading."""
    top = 0
    for title, rows in (*opened.items(), *collapsed.items()):
        y = top + bool(title)
        for panels in rows:
            for panel in panels:
                panel["gridPos"]["y"] = y
            y += panels[0]["gridPos"]["h"]
        shown = [panel for panels in rows for panel in panels]
        is_collapsed = title in collapsed
        if title:
            place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
            heading: Panel = {"type": "row", "title": title, "gridPos": place}
            yield {**heading, "collapsed": is_collapsed, "panels": shown if is_collapsed else []}
        if not is_collapsed:
            yield from shown
        top = top + 1 if is_collapsed else y


def board(
    uid: str,
    title: str,
    description: str,
    *,
    variables: Sequence[Variable],
    scope: Scope,
    sections: Sections,
    collapsed: Sections = _NO_SECTIONS,
    marks: Sequence[Mark] = (),
) -> dict[str, Any]:
    """Return a dashboard that cannot be edited in place: it is provisioned, and its source is this code."""
    fired = mark("Alerts", alerts(scope, FIRING), "{{alertname}}", Colour.HARM)
    panels = list(_arranged(sections, collapsed))
    for number, panel in enumerate((one for each in panels for one in (each, *each.get("panels", ()))), 1):
        panel["id"] = number
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "schemaVersion": 42,
        "tags": [TAG],
        "editable": False,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "graphTooltip": 1,
        "templating": {"list": [SOURCE, JOB, *variables, FILTERS]},
        "annotations": {"list": [fired, *marks]},
        "links": _LINKS,
        "panels": panels,
    }
