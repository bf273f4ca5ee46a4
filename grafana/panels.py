"""The kinds of panels. A panel is its words, its queries and how its values look; the rest is as always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from grafana import style
from grafana.style import Steps, Words
from grafana.variables import DATASOURCE

Panel = dict[str, Any]
"""A panel as Grafana's JSON has it."""
Properties = Mapping[str, Any]
"""Field options by Grafana's names: ``{"unit": "s"}``."""

_DASHED_LIMIT = {"thresholdsStyle": {"mode": "dashed"}}


@dataclass(frozen=True, slots=True)
class Query:
    """One expression, the name of its series, and what is special about the look of them."""

    expr: str
    legend: str = ""
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Format of values."""

    unit: str
    decimals: int | None = None
    least: float | None = None
    most: float | None = None
    steps: Steps = style.PLAIN
    colour: Mapping[str, str] | None = None
    no_value: str = "no data"
    axis: tuple[float | None, float | None] = (None, None)
    """What an axis shows at least, though the values may go beyond."""


def line(colour: str, properties: Properties | None = None) -> Panel:
    """Return the properties of a line of one colour."""
    return {"color": style.fixed(colour), **(properties or {})}


def dashed(colour: str) -> Panel:
    """Return the properties of a line that is compared with, not measured."""
    return line(colour, {"custom.lineStyle": {"fill": "dash", "dash": [8, 8]}, "custom.fillOpacity": 0})


def band(lower: str, upper: str, names: tuple[str, str], colour: str) -> tuple[Query, Query]:
    """Return the queries of two bounds, with the space between them filled."""
    hidden = {"legend": True, "tooltip": False, "viz": False}
    bare = line(colour, {"custom.lineWidth": 0, "custom.hideFrom": hidden})
    filled = {**bare, "custom.fillBelowTo": names[0], "custom.fillOpacity": 18}
    return Query(lower, names[0], {**bare, "custom.fillOpacity": 0}), Query(upper, names[1], filled)


def text_of(words: Words) -> Panel:
    """Return the properties of values that stand for words."""
    return {
        "mappings": style.mappings(words),
        "color": style.BY_THRESHOLDS,
        "thresholds": style.thresholds(style.NEUTRAL),
    }


def _some(**values: object) -> Panel:
    """Return the values that are given."""
    return {name: value for name, value in values.items() if value is not None}


def _override(matcher: str, what: str, given: Properties) -> Panel:
    properties = [{"id": name, "value": value} for name, value in given.items()]
    return {"matcher": {"id": matcher, "options": what}, "properties": properties}


def _panel(
    kind: str,
    words: tuple[str, str],
    queries: Sequence[Query],
    look: Look,
    *,
    options: Panel,
    custom: Panel | None = None,
    instant: bool = False,
    form: str = "time_series",
) -> Panel:
    """Return a panel of any kind; ``words`` are its title and description."""
    named_queries = list(zip(queries, ascii_uppercase, strict=False))
    defaults = {
        **_some(unit=look.unit, decimals=look.decimals, min=look.least, max=look.most, custom=custom),
        "mappings": [],
        "thresholds": style.thresholds(look.steps),
        "color": look.colour or style.BY_THRESHOLDS,
        "noValue": look.no_value,
    }
    return {
        "type": kind,
        "title": words[0],
        "description": words[1],
        "datasource": DATASOURCE,
        "options": options,
        "targets": [
            {
                "refId": ref,
                "expr": query.expr,
                "datasource": DATASOURCE,
                "editorMode": "code",
                "format": form,
                "instant": instant,
                "range": not instant,
                "legendFormat": query.legend or "__auto",
            }
            for query, ref in named_queries
        ],
        "fieldConfig": {
            "defaults": defaults,
            "overrides": [
                _override("byFrameRefID", ref, query.properties)
                for query, ref in named_queries
                if query.properties
            ],
        },
    }


def named(panel: Panel, properties: Mapping[str, Properties]) -> Panel:
    """Give series or columns of a certain name an own look."""
    panel["fieldConfig"]["overrides"] += [_override("byName", *one) for one in properties.items()]
    return panel


def _legend(*, shown: bool = True) -> Panel:
    return {"displayMode": "list", "placement": "bottom", "showLegend": shown, "calcs": []}


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    look: Look,
    *,
    stacked: bool = False,
    limit: bool = False,
    stepped: bool = False,
) -> Panel:
    """Return values over time; ``limit`` draws the thresholds as dashed lines, ``stepped`` is for counts."""
    custom = {
        "lineWidth": 0 if stacked else 2,
        "fillOpacity": 70 if stacked else 0,
        "showPoints": "never",
        "spanNulls": False,
        **({"lineInterpolation": "stepAfter"} if stepped else {}),
        **({"stacking": {"mode": "normal", "group": "A"}} if stacked else {}),
        **(_DASHED_LIMIT if limit else {}),
        **_some(axisSoftMin=look.axis[0], axisSoftMax=look.axis[1]),
    }
    options = {"legend": _legend(), "tooltip": {"mode": "multi", "sort": "desc"}}
    return _panel("timeseries", (title, description), queries, look, options=options, custom=custom)


def stat_tile(
    title: str,
    description: str,
    queries: Sequence[Query],
    look: Look,
    *,
    filled: bool = False,
    history: bool = False,
) -> Panel:
    """Return values as large figures: ``filled`` colours the tile, ``history`` draws the way there."""
    several = len(queries) > 1 or "{{" in queries[0].legend
    options = {
        "graphMode": "area" if history else "none",
        "colorMode": "background_solid" if filled else "value",
        "textMode": "value_and_name" if several else "value",
        "justifyMode": "center",
        "wideLayout": True,
        "orientation": "vertical",
        "reduceOptions": {"calcs": ["lastNotNull"], "values": False},
        # Or each value would be as large as its own text allows.
        **({"text": {"titleSize": 13, "valueSize": 22}} if several and not filled else {}),
    }
    panel = _panel("stat", (title, description), queries, look, options=options, instant=not history)
    # No data is grey: who sees nothing must not say that all is well.
    panel["fieldConfig"]["defaults"]["mappings"].append(style.nothing(None))
    return panel


def count_tile(title: str, description: str, counted: str, seen: str) -> Panel:
    """Return how many series an expression has, which should be none; no data without any ``seen``."""
    query = Query(f"count({counted}) or 0 * count({seen})")
    look = Look(unit="short", decimals=0, steps=style.NONE_IS_GOOD)
    return stat_tile(title, description, [query], look, filled=True)


def bars(
    title: str,
    description: str,
    queries: Sequence[Query],
    x: str,
    look: Look,
    *,
    x_title: str,
    limit: bool = False,
    overlaid: bool = False,
) -> Panel:
    """Return one bar, or a group of bars, for each value of the label ``x``, as it is now.

    ``overlaid`` is for series of which only one has a value at each ``x``.
    """
    options = {
        "xField": x_title,
        "orientation": "vertical",
        "showValue": "auto",
        "stacking": "normal" if overlaid else "none",
        "groupWidth": 0.75,
        "barWidth": 0.9,
        "barRadius": 0.05,
        "legend": _legend(shown=len(queries) > 1),
        "tooltip": {"mode": "single", "sort": "asc"},
    }
    custom = {"lineWidth": 0, "fillOpacity": 85, **(_DASHED_LIMIT if limit else {})}
    plain = [Query(query.expr) for query in queries]
    panel = _panel(
        "barchart",
        (title, description),
        plain,
        look,
        options=options,
        custom=custom,
        instant=True,
        form="table",
    )
    values = {_value(number, len(queries)): query.legend for number, query in enumerate(queries)}
    times = ["Time", *(f"Time {number + 1}" for number in range(len(queries)))]
    panel["transformations"] = [
        {"id": "joinByField", "options": {"byField": x, "mode": "outer"}},
        _organized({x: x_title, **values}, times),
        {"id": "sortBy", "options": {"sort": [{"field": x_title}]}},
    ]
    return named(panel, {query.legend: query.properties for query in queries if query.properties})


def heat_over_time(title: str, description: str, query: Query, look: Look, *, y_title: str) -> Panel:
    """Return one row of cells for each bucket of a histogram, coloured by value."""
    options = {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 32},
        "cellGap": 0,
        "yAxis": {"axisLabel": y_title, "unit": "percentunit", "decimals": 0},
        "cellValues": {"unit": look.unit},
        "rowsFrame": {"layout": "auto"},
        "showValue": "auto",
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "tooltip": {"mode": "single"},
    }
    return _panel("heatmap", (title, description), [query], look, options=options, custom={}, form="heatmap")


def timeline(title: str, description: str, queries: Sequence[Query], look: Look) -> Panel:
    """Return what a state was, and from when to when."""
    options = {
        "mergeValues": True,
        "showValue": "auto",
        "alignValue": "left",
        "rowHeight": 0.8,
        "legend": _legend(shown=False),
        "tooltip": {"mode": "single", "sort": "asc"},
    }
    custom = {"fillOpacity": 75, "lineWidth": 0}
    return _panel("state-timeline", (title, description), queries, look, options=options, custom=custom)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the values of an expression, or what one of its labels says."""

    title: str
    expr: str
    """Aggregated by the table's keys, and by ``label`` where there is one."""
    properties: Properties = field(default_factory=dict)
    label: str = ""
    """Show this label instead of the value."""


def rows(
    title: str,
    description: str,
    keys: Mapping[str, str],
    columns: Sequence[Column],
    *,
    looks: Mapping[str, Properties] | None = None,
    order: Sequence[str] = (),
    last: str = "",
    worst: str = "",
    no_value: str = "no data",
) -> Panel:
    """Return a table with a row for each combination of labels, the ``keys`` of the titles of their columns.

    ``looks`` are properties of these columns by title, ``order`` the columns to the left (others follow as
    given, keys first), ``last`` the one to the right, ``worst`` that by which rows are sorted, highest first.
    """
    options = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": []}}
    if worst:
        options["sortBy"] = [{"displayName": worst, "desc": True}]
    queries = [Query(column.expr, column.title) for column in columns]
    look = Look(unit="short", steps=style.NEUTRAL, no_value=no_value)
    panel = _panel(
        "table",
        (title, description),
        queries,
        look,
        options=options,
        custom={"minWidth": 90},
        instant=True,
        form="table",
    )
    panel["transformations"] = [
        {"id": "merge", "options": {}},
        _organized(*_fields(keys, columns), order, last),
    ]
    own = {column.title: column.properties for column in columns if column.properties}
    named(panel, {**(looks or {}), **own})
    # What the panel says when it is empty must not stand in every empty cell.
    panel["fieldConfig"]["overrides"].append(_override("byRegexp", ".*", {"noValue": "\u2013"}))
    return panel


def _value(number: int, of: int) -> str:
    """Return how Grafana calls the values of a table's query."""
    return "Value" if of == 1 else f"Value #{ascii_uppercase[number]}"


def _fields(keys: Mapping[str, str], columns: Sequence[Column]) -> tuple[dict[str, str], list[str]]:
    """Return the titles by field, and the fields to leave out."""
    shown, hidden = dict(keys), ["Time"]
    for number, column in enumerate(columns):
        value = _value(number, len(columns))
        hidden += [value] if column.label else []
        shown[column.label or value] = column.title
    return shown, hidden


def _organized(
    titles: Mapping[str, str], hidden: Sequence[str], order: Sequence[str] = (), last: str = ""
) -> Panel:
    """Name, order and leave out fields."""
    places = {title: place for place, title in enumerate(order)} | {last: len(titles) + 1}
    fields = sorted(titles, key=lambda name: places.get(titles[name], len(titles)))
    options = {
        "excludeByName": dict.fromkeys(hidden, True),
        "indexByName": {name: place for place, name in enumerate(fields)},
        "renameByName": dict(titles),
    }
    return {"id": "organize", "options": options}


def cell(steps: Steps = (), words: Words = (), *, filled: bool = True, **look: Any) -> Panel:  # noqa: ANN401
    """Return the properties of a column whose cells are coloured, by thresholds or by words.

    ``look`` is what else the column has: ``width``, ``unit``, ``decimals``.
    """
    kind = {"type": "color-background", "mode": "basic"} if filled else {"type": "color-text"}
    if words:
        align = {"custom.cellOptions": kind, "custom.align": "left"}
        return {**align, **wide(**look), "mappings": style.mappings(words)}
    coloured = {"thresholds": style.thresholds(steps), "mappings": [style.nothing()]}
    return {"custom.cellOptions": kind, **wide(**look), **coloured}


def wide(width: int | None = None, **look: Any) -> Panel:  # noqa: ANN401
    """Return the properties of a column of N pixels."""
    return look if width is None else {"custom.width": width, **look}


def palette(words: Words) -> dict[str, Properties]:
    """Return the colours of series that are named as the values of a state set."""
    return {word.value: {"color": style.fixed(word.colour)} for word in words}
