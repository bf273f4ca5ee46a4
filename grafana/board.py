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


@dataclass(frozen=True, slots=True)
class Mark:
    """An event that is drawn as a vertical line on every graph."""

    name: str
    expr: str
    title: str
    colour: Colour


def alerts(scope: Scope) -> Mark:
    """Return the marks of the alerts that fire."""
    return Mark("Alerts", firing(scope), "{{alertname}}", Colour.HARM)


def _annotation(mark: Mark) -> dict[str, Any]:
    return {
        "name": mark.name,
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": mark.colour,
        "expr": mark.expr,
        "titleFormat": mark.title,
        "textFormat": "{{target}} {{model_name}} {{engine}}",
    }


def _link(title: str, tag: str, *, variables: bool) -> dict[str, Any]:
    """Return the links to all dashboards with a tag; ``variables``: whether theirs have the same names."""
    kept = {"includeVars": variables, "keepTime": True}
    return {"title": title, "type": "dashboards", "tags": [tag], "asDropdown": not variables, **kept}


_LINKS = [_link("Speculative decoding", TAG, variables=True), _link("vLLM", "vllm", variables=False)]


def _placed(section: Section, top: int) -> Iterator[Panel]:
    """Yield the panels of a section with their places, below its heading at ``top``."""
    below = top + bool(section.title)
    for band in section.bands:
        left = 0
        for width, panel in band.panels:
            yield {**panel, "gridPos": {"h": band.height, "w": width, "x": left, "y": below}}
            left += width
        below += band.height


def _arranged(sections: Sequence[Section]) -> Iterator[Panel]:
    top = 0
    for section in sections:
        panels = list(_placed(section, top))
        if section.title:
            place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
            row: Panel = {"type": "row", "title": section.title, "gridPos": place}
            yield {**row, "collapsed": section.collapsed, "panels": panels if section.collapsed else []}
            top += 1
        if not section.collapsed:
            yield from panels
            top += sum(band.height for band in section.bands)


def _numbered(panels: Sequence[Panel]) -> list[Panel]:
    number = 0
    for panel in panels:
        for one in (panel, *panel.get("panels", ())):
            number += 1
            one["id"] = number
    return list(panels)


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
        "annotations": {"list": [_annotation(mark) for mark in marks]},
        "links": _LINKS,
        "panels": _numbered(list(_arranged(sections))),
    }
