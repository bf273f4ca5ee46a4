"""Frame of every dashboard: links, marks on graphs, and places of panels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, Dashboard, DashboardLink
from grafana_foundation_sdk.models import dashboard

from grafana.panels import Panel
from grafana.promql import Scope, firing
from grafana.style import Colour
from grafana.variables import DATASOURCE, Variable

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


def _annotation(mark: Mark) -> AnnotationQuery:
    return (
        AnnotationQuery()
        .name(mark.name)
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color(mark.colour)
        .expr(mark.expr)
        .title_format(mark.title)
        .text_format("{{target}} {{model_name}} {{engine}}")
    )


def _links() -> DashboardLink:
    return (
        DashboardLink("Speculative decoding")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )


def _placed(band: Band, top: int) -> Iterator[Panel]:
    left = 0
    for width, panel in band.panels:
        panel.grid_pos = dashboard.GridPos(h=band.height, w=width, x=left, y=top)
        left += width
        yield panel


def _row(section: Section, top: int) -> dashboard.RowPanel:
    position = dashboard.GridPos(h=1, w=WIDTH, x=0, y=top)
    return dashboard.RowPanel(title=section.title, collapsed=section.collapsed, grid_pos=position)


def _section(section: Section, top: int) -> tuple[list[Panel | dashboard.RowPanel], int]:
    """Place a section; return its panels, and where the next one begins."""
    below = top + 1 if section.title else top
    panels: list[Panel] = []
    for band in section.bands:
        panels += _placed(band, below)
        below += band.height
    if not section.title:
        return [*panels], below
    row = _row(section, top)
    if section.collapsed:
        row.panels = panels
        return [row], top + 1
    return [row, *panels], below


def _numbered(panels: Iterable[Panel | dashboard.RowPanel]) -> Iterator[Panel | dashboard.RowPanel]:
    number = 0
    for panel in panels:
        for one in (panel, *(panel.panels if isinstance(panel, dashboard.RowPanel) else ())):
            number += 1
            one.id_val = number
        yield panel


def _arranged(sections: Sequence[Section]) -> list[Panel | dashboard.RowPanel]:
    everything: list[Panel | dashboard.RowPanel] = []
    top = 0
    for section in sections:
        placed, top = _section(section, top)
        everything += placed
    return list(_numbered(everything))


def board(
    uid: str,
    title: str,
    description: str,
    *,
    variables: Sequence[Variable],
    marks: Sequence[Mark],
    sections: Sequence[Section],
    since: str = "now-1h",
) -> dashboard.Dashboard:
    """Return a dashboard that cannot be edited in place: it is provisioned, and its source is this code."""
    built = (
        Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .timezone("browser")
        .time(since, "now")
        .refresh("30s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .variables([*variables])
        .annotations([_annotation(mark) for mark in marks])
        .links([_links()])
        .build()
    )
    built.panels = _arranged(sections)
    return built
