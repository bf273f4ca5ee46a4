"""Frame of every dashboard: links, marks on graphs, and places of panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grafana.panels import Panel
from grafana.promql import Scope, firing
from grafana.style import Colour
from grafana.variables import DATASOURCE, FILTERS, Variable

TAG = "spec-decode"
WIDTH = 24
"""Grafana's grid."""


@dataclass(frozen=True, slots=True)
class Band:
    """Panels side by side, with their widths; together they are as wide as the grid."""

    height: int
    panels: Sequence[tuple[int, Panel]]


@dataclass(frozen=True, slots=True)
class Section:
    """Bands under a heading; the first section of a dashboard has none."""

    bands: Sequence[Band]
    title: str = ""
    collapsed: bool = False


Mark = dict[str, Any]
"""An annotation, as Grafana's JSON has it."""


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


def alerts(scope: Scope) -> Mark:
    """Return the marks of the alerts that fire."""
    return mark("Alerts", firing(scope), "{{alertname}}", Colour.HARM)


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


def _arranged(sections: Sequence[Section]) -> Iterator[Panel]:
    """Yield headings and panels from the top down, with their places."""
    top = 0
    for section in sections:
        below, panels = top + bool(section.title), []
        for band in section.bands:
            left = 0
            for width, panel in band.panels:
                panels.append({**panel, "gridPos": {"h": band.height, "w": width, "x": left, "y": below}})
                left += width
            below += band.height
        if section.title:
            place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
            row: Panel = {"type": "row", "title": section.title, "gridPos": place}
            yield {**row, "collapsed": section.collapsed, "panels": panels if section.collapsed else []}
        if section.collapsed:
            top += 1
        else:
            yield from panels
            top = below


def board(
    uid: str,
    title: str,
    description: str,
    *,
    variables: Sequence[Variable],
    marks: Sequence[Mark],
    sections: Sequence[Section],
) -> dict[str, Any]:
    """Return a dashboard that cannot be edited in place: it is provisioned, and its source is this code."""
    panels = list(_arranged(sections))
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
        "templating": {"list": [*variables, FILTERS]},
        "annotations": {"list": list(marks)},
        "links": _LINKS,
        "panels": panels,
    }
