"""Perses dashboard of a Grafana dashboard: the same variables, panels, queries, words and thresholds.

Perses has no XY chart and no heatmap of classic histograms: those panels are left out. A panel whose words
belong to one of its queries becomes a panel per query, because Perses maps values per panel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

PROJECT: Final = "spec-decode"
"""Project of the dashboard in Perses; `percli apply --project` replaces it."""

_COLOURS: Final = {
    "green": "#73bf69",
    "dark-green": "#37872d",
    "yellow": "#f2cc0c",
    "orange": "#ff9830",
    "red": "#f2495c",
    "blue": "#5794f2",
    "purple": "#b877d9",
}
"""Grafana's names of colours; Perses takes hexadecimal ones."""

_UNITS: Final[Mapping[str, Json]] = {
    "percentunit": {"unit": "percent-decimal"},
    "s": {"unit": "seconds"},
    "cps": {"unit": "counts/sec"},
    "short": {"unit": "decimal", "shortValues": True},
}
_PLAIN: Final[Json] = {"unit": "decimal"}
_AXES: Final = {"mbytes": "MiB"}
"""Units that Perses lacks, as labels of the axis."""

_CHARTS: Final = {
    "stat": "StatChart",
    "timeseries": "TimeSeriesChart",
    "heatmap": "TimeSeriesChart",
    "state-timeline": "StatusHistoryChart",
    "barchart": "BarChart",
}
_HISTOGRAM: Final = "heatmap"
"""Format of a query for a heatmap of buckets."""


def perses(board: Json) -> Json:
    """Return a dashboard in Perses' format.

    Args:
        board: A dashboard in Grafana's classic JSON format.
    """
    sections = list(_sections(board["panels"]))
    panels = {key: panel for _, items in sections for key, panel, _ in items}
    return {
        "kind": "Dashboard",
        "metadata": {"name": board["uid"], "project": PROJECT},
        "spec": {
            "display": {"name": board["title"], "description": board["description"]},
            "duration": board["time"]["from"].removeprefix("now-"),
            "refreshInterval": board["refresh"],
            "variables": [
                _variable(one) for one in board["templating"]["list"] if one["type"] != "datasource"
            ],
            "panels": panels,
            "layouts": [_layout(row, [(key, place) for key, _, place in items]) for row, items in sections],
        },
    }


def _variable(variable: Json) -> Json:
    spec: Json = {
        "name": variable["name"],
        "display": {"name": variable["label"], "hidden": False},
        "allowMultiple": variable.get("multi", False),
        "allowAllValue": variable.get("includeAll", False),
        "plugin": _values(variable),
    }
    if variable.get("allValue"):
        spec |= {"customAllValue": variable["allValue"], "defaultValue": "$__all"}
    elif variable.get("current", {}).get("value"):
        spec["defaultValue"] = variable["current"]["value"]
    return {"kind": "ListVariable", "spec": spec}


def _values(variable: Json) -> Json:
    if variable["type"] == "custom":
        return {"kind": "StaticListVariable", "spec": {"values": variable["query"].split(",")}}
    found = re.fullmatch(r"label_values\((.+), ([$\w]+)\)", variable["definition"])
    if found is None:
        raise ValueError(f"{variable['name']}: {variable['definition']} is not label_values(selector, label)")
    return {"kind": "PrometheusLabelValuesVariable", "spec": {"labelName": found[2], "matchers": [found[1]]}}


Item = tuple[str, Json, Json]
"""Key, panel, and place of a panel in its section."""


def _sections(panels: Sequence[Json]) -> Iterator[tuple[Json | None, list[Item]]]:
    """Yield each row, or None before the first one, with its panels."""
    row: Json | None = None
    items: list[Item] = []
    for panel in panels:
        if panel["type"] == "row":
            yield row, items
            row, items = panel, [item for one in panel.get("panels", ()) for item in _items(one, panel)]
        else:
            items += _items(panel, row)
    yield row, items


def _items(panel: Json, row: Json | None) -> Iterator[Item]:
    """Yield a panel, or one for each of its queries; nothing if Perses has no such chart."""
    queries = panel["targets"]
    if panel["type"] not in _CHARTS or any(one["format"] == _HISTOGRAM for one in queries):
        return
    grid, top = panel["gridPos"], row["gridPos"]["y"] + 1 if row else 0
    parts = [[one] for one in queries] if _has_own_words(panel) else [queries]
    width = grid["w"] // len(parts)
    for number, part in enumerate(parts):
        key = f"panel-{panel['id']}" + (f"-{part[0]['refId']}" if len(parts) > 1 else "")
        left = grid["x"] + number * width
        place = {"x": left, "y": grid["y"] - top, "width": width, "height": grid["h"]}
        yield key, _panel(panel, part, whole=len(parts) == 1), place


def _has_own_words(panel: Json) -> bool:
    """Return whether a query of several has words of its own."""
    return len(panel["targets"]) > 1 and any(
        "mappings" in _properties(panel, one) for one in panel["targets"]
    )


def _properties(panel: Json, query: Json) -> Json:
    """Return the field options of one query's series."""
    return {
        each["id"]: each["value"]
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"] == {"id": "byFrameRefID", "options": query["refId"]}
        for each in override["properties"]
    }


def _panel(panel: Json, queries: Sequence[Json], *, whole: bool) -> Json:
    title = (
        panel["title"] if whole or panel["title"] == queries[0]["legendFormat"] else _title(panel, queries[0])
    )
    chart = _CHARTS[panel["type"]]
    return {
        "kind": "Panel",
        "spec": {
            "display": {"name": title, "description": panel["description"]},
            "plugin": {"kind": chart, "spec": _SPECS[chart](panel, queries)},
            "queries": [_query(panel, one) for one in queries],
        },
    }


def _title(panel: Json, query: Json) -> str:
    return f"{panel['title']}: {query['legendFormat']}"


def _query(panel: Json, query: Json) -> Json:
    spec = {"query": query["expr"], "seriesNameFormat": _series_name(panel, query)}
    return {
        "kind": "TimeSeriesQuery",
        "spec": {"plugin": {"kind": "PrometheusTimeSeriesQuery", "spec": spec}},
    }


def _series_name(panel: Json, query: Json) -> str:
    """Return the legend; of a bar chart, the column and the label that its table is joined by."""
    steps = {step["id"]: step["options"] for step in panel.get("transformations", ())}
    if "joinByField" not in steps:
        return str(query["legendFormat"])
    column = steps["organize"]["renameByName"].get(f"Value #{query['refId']}", "")
    return f"{column} {{{{{steps['joinByField']['byField']}}}}}".strip()


def _layout(row: Json | None, places: Sequence[tuple[str, Json]]) -> Json:
    items = [{**place, "content": {"$ref": f"#/spec/panels/{key}"}} for key, place in places]
    spec: Json = {"items": items}
    if row:
        spec["display"] = {"title": row["title"], "collapse": {"open": not row["collapsed"]}}
    return {"kind": "Grid", "spec": spec}


def _options(panel: Json, queries: Sequence[Json]) -> Json:
    """Return the field options of the panel; a query that is alone adds its own."""
    own = _properties(panel, queries[0]) if len(queries) == 1 else {}
    return {**panel["fieldConfig"]["defaults"], **own}


def _format(options: Json) -> Json:
    known = _UNITS.get(options["unit"], _PLAIN)
    decimals = options.get("decimals")
    return known if decimals is None else {**known, "decimalPlaces": decimals}


def _colour(name: str) -> str:
    return _COLOURS.get(name, name)


def _thresholds(options: Json) -> Json:
    first, *others = options["thresholds"]["steps"]
    steps = [{"value": one["value"], "color": _colour(one["color"])} for one in others]
    return {"mode": "absolute", "defaultColor": _colour(first["color"]), "steps": steps}


def _words(options: Json) -> list[Json]:
    """Return the words of numbers; what stands for no value is left to Perses."""
    return [
        {
            "kind": "Value",
            "spec": {"value": value, "result": {"value": shown["text"], "color": _colour(shown["color"])}},
        }
        for mapping in options.get("mappings", ())
        if mapping["type"] == "value"
        for value, shown in mapping["options"].items()
    ]


def _stat(panel: Json, queries: Sequence[Json]) -> Json:
    options = _options(panel, queries)
    filled = panel["options"]["colorMode"] == "background_solid"
    return {
        "calculation": "last-number",
        "format": _format(options),
        "thresholds": _thresholds(options),
        "colorMode": "background_solid" if filled else "value",
        **({"mappings": words} if (words := _words(options)) else {}),
    }


def _time_series(panel: Json, queries: Sequence[Json]) -> Json:
    options = panel["fieldConfig"]["defaults"]
    custom = options.get("custom") or {}
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    axis = {
        name: options[key] for name, key in (("min", "min"), ("max", "max")) if options.get(key) is not None
    }
    label = {"label": _AXES[options["unit"]]} if options["unit"] in _AXES else {}
    return {
        "legend": {"position": "bottom", "mode": "list"},
        "yAxis": {"format": _format(options), **axis, **label},
        "visual": {
            "lineWidth": 2,
            "connectNulls": False,
            **({"areaOpacity": 0.7, "stack": "all"} if stacked else {}),
        },
        "querySettings": [_line(number, _properties(panel, one)) for number, one in enumerate(queries)],
    }


def _line(number: int, properties: Json) -> Json:
    settings: Json = {"queryIndex": number}
    colour = properties.get("color", {}).get("fixedColor")
    if colour:
        settings |= {"colorMode": "fixed", "colorValue": _colour(colour)}
    if properties.get("custom.lineStyle", {}).get("fill") == "dash":
        settings["lineStyle"] = "dashed"
    return settings


def _status(panel: Json, queries: Sequence[Json]) -> Json:
    return {"legend": {"position": "bottom"}, "mappings": _words(_options(panel, queries))}


def _bars(panel: Json, queries: Sequence[Json]) -> Json:
    return {"calculation": "last-number", "format": _format(_options(panel, queries)), "mode": "value"}


_SPECS: Final = {
    "StatChart": _stat,
    "TimeSeriesChart": _time_series,
    "StatusHistoryChart": _status,
    "BarChart": _bars,
}
