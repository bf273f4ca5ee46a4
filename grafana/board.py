"""Frame of every dashboard: variables, links, marks on graphs, and places of panels.

All variables are queried again when the time range changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from grafana.panels import DATASOURCE, Panel
from grafana.promql import FIRING, Scope, alerts
from grafana.style import Colour

TAG = "spec-decode"
WIDTH = 24
"""Grafana's grid."""

Sections = Mapping[str, Sequence[Sequence[Panel]]]
"""Rows of panels by their heading; the first section of a dashboard has none."""
Part = dict[str, Any]
"""A variable or an annotation, as Grafana's JSON has it."""

_ALL: Part = {
    "multi": True,
    "includeAll": True,
    "allValue": ".+",
    "current": {"text": ["All"], "value": ["$__all"]},
}
_ON_TIME_RANGE_CHANGED, _NATURAL_ASC = 2, 7
FILTERS: Part = {"type": "adhoc", "name": "filters", "label": "Filters", "datasource": DATASOURCE}
"""Matchers of any label, which Grafana adds to each query of the dashboard."""


def _query(name: str, label: str, selector: str, of_label: str = "", **more: object) -> Part:
    """Return the choice of one value of a label, which is called like the variable; ``more`` overrides."""
    query = f"label_values({selector}, {of_label or name})"
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "definition": query,
        "refresh": _ON_TIME_RANGE_CHANGED,
        "sort": _NATURAL_ASC,
        "multi": False,
        "includeAll": False,
        **more,
    }


_JOB = 'job=~"$job"'
_EXPORTERS = f'{_JOB}, instance=~"$instance"'
_MODELS = f'{_EXPORTERS}, model_name=~"$model_name"'
_DRAFTS = "spec_decode_drafts_total"
_ARMS = ("arm", "variant", "model_name", "target", "engine", "instance", "pod")


def _window(name: str, label: str, usual: str) -> Part:
    selector = f"spec_decode_window_seconds{{{_EXPORTERS}}}"
    return _query(name, label, selector, "window", current={"text": usual, "value": usual})


SOURCE: Part = {
    "type": "datasource",
    "query": "prometheus",
    "multi": False,
    "name": "datasource",
    "label": "Data source",
}
JOB = _query("job", "Job", "spec_decode_exporter_build_info", **_ALL)
INSTANCE = _query("instance", "Instance", f"spec_decode_exporter_build_info{{{_JOB}}}", **_ALL)
MODEL = _query("model_name", "Model", f"{_DRAFTS}{{{_EXPORTERS}}}", **_ALL)
REQUEST_TYPE = _query("request_type", "Type", f"spec_decode_requests_total{{{_MODELS}}}", **_ALL)
LONG = _window("long", "Long window", "5m")
WINDOWS = [_window("short", "Short window", "30s"), LONG]
"""The two windows that are compared; they are the exporter's configuration."""
ONE_ENGINE = [
    _query("model_name", "Model", f"{_DRAFTS}{{{_JOB}}}", **_ALL),
    # The exporter that watches the chosen model.
    _query("instance", "Instance", f'{_DRAFTS}{{{_JOB}, model_name=~"$model_name"}}'),
    _query("target", "Target", f"{_DRAFTS}{{{_MODELS}}}"),
    _query("engine", "Engine", f'{_DRAFTS}{{{_MODELS}, target=~"$target"}}'),
]
ARM_VARIABLES: list[Part] = [
    {
        "type": "custom",
        "name": "compare",
        "label": "Compare by label",
        "query": ",".join(_ARMS),
        "current": {"text": _ARMS[0], "value": _ARMS[0], "selected": True},
        "multi": False,
    },
    _query("arm", "Arms", f"{_DRAFTS}{{{_MODELS}}}", "$compare", **_ALL),
    _query("baseline", "Baseline", f"{_DRAFTS}{{{_MODELS}}}", "$compare"),
]
"""The label that tells arms apart, arms, and the one to compare with."""


def row(height: int, *panels: Panel, widths: Sequence[int] = ()) -> list[Panel]:
    """Return panels side by side with their places, equally wide where no widths are given."""
    widths = widths or [WIDTH // len(panels)] * len(panels)
    places = zip(panels, widths, accumulate(widths, initial=0), strict=False)
    return [{**panel, "gridPos": {"h": height, "w": width, "x": x}} for panel, width, x in places]


def mark(name: str, expr: str, title: str, colour: Colour) -> Part:
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
    variables: Sequence[Part],
    scope: Scope,
    sections: Sections,
    collapsed: Sections | None = None,
    marks: Sequence[Part] = (),
) -> dict[str, Any]:
    """Return a dashboard that cannot be edited in place: it is provisioned, and its source is this code."""
    fired = mark("Alerts", alerts(scope, FIRING), "{{alertname}}", Colour.HARM)
    panels = list(_arranged(sections, collapsed or {}))
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
