"""The kinds of panels. A panel is its words, how its values look, and its queries; the rest is as always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any, NamedTuple

from grafana import style
from grafana.style import Steps, Words

Panel = dict[str, Any]
"""A panel as Grafana's JSON has it."""
Properties = Mapping[str, Any]
"""Field options by Grafana's names: ``{"unit": "s"}``."""
Looks = Mapping[str, Properties]
"""Properties of series or columns by name."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_DASH = "\u2013"


@dataclass(frozen=True, slots=True)
class Query:
    """One series or column of a table: its name, its expression, and what is special about its look."""

    name: str
    expr: str
    """In a table aggregated by its keys, and by ``label`` where there is one."""
    properties: Properties = field(default_factory=dict)
    label: str = ""
    """Show this label in the column instead of the value."""


class Look(NamedTuple):
    """Format of values."""

    unit: str
    decimals: int | None = None
    least: float | None = None
    most: float | None = None
    steps: Steps = style.PLAIN
    colour: Mapping[str, Any] | None = None
    no_value: str = "no data"
    axis: tuple[float | None, float | None] = (None, None)
    """What an axis shows at least, though the values may go beyond."""


SPEEDUP = Look(unit="none", decimals=2, steps=style.PAYS, no_value="cost unknown", axis=(0.9, None))


def line(colour: str, properties: Properties | None = None) -> Panel:
    """Return the properties of a line of one colour."""
    return {"color": style.fixed(colour), **(properties or {})}


def dashed(colour: str) -> Panel:
    """Return the properties of a line that is compared with, not measured."""
    return line(colour, {"custom.lineStyle": {"fill": "dash", "dash": [8, 8]}, "custom.fillOpacity": 0})


def band(colour: str, lower: tuple[str, str], upper: tuple[str, str]) -> tuple[Query, Query]:
    """Return the queries of two bounds, names and expressions, with the space between them filled."""
    hidden = {"legend": True, "tooltip": False, "viz": False}
    bare = line(colour, {"custom.lineWidth": 0, "custom.hideFrom": hidden})
    filled = {**bare, "custom.fillBelowTo": lower[0], "custom.fillOpacity": 18}
    return Query(*lower, {**bare, "custom.fillOpacity": 0}), Query(*upper, filled)


def text_of(words: Words) -> Panel:
    """Return the properties of values that stand for words."""
    steps = style.thresholds(style.NEUTRAL)
    return {"mappings": style.mappings(words), "color": style.BY_THRESHOLDS, "thresholds": steps}


def _some(**values: object) -> Panel:
    """Return the values that are given."""
    return {name: value for name, value in values.items() if value is not None}


def _override(matcher: str, what: str, given: Properties) -> Panel:
    properties = [{"id": name, "value": value} for name, value in given.items()]
    return {"matcher": {"id": matcher, "options": what}, "properties": properties}


class Kind(NamedTuple):
    """A kind of panels, which makes these: Grafana's name, and what all of them have in common."""

    name: str
    options: Panel
    custom: Panel | None = None
    """Options of fields; None of a kind that has none."""
    form: str = "time_series"
    is_instant: bool = False

    def __call__(
        self, title: str, description: str, look: Look, *queries: Query, looks: Looks | None = None
    ) -> Panel:
        """Return a panel; ``looks`` are instead of the properties of the queries."""
        by_ref = list(zip(ascii_uppercase, queries, strict=False))
        targets = [
            {
                "refId": ref,
                "expr": query.expr,
                "datasource": DATASOURCE,
                "editorMode": "code",
                "format": self.form,
                "instant": self.is_instant,
                "range": not self.is_instant,
                "legendFormat": query.name or "__auto",
            }
            for ref, query in by_ref
        ]
        # Thresholds are drawn, where there are some.
        limits = {"thresholdsStyle": {"mode": "dashed"}} if len(look.steps) > 1 else {}
        axis = _some(axisSoftMin=look.axis[0], axisSoftMax=look.axis[1])
        custom = None if self.custom is None else {**self.custom, **limits, **axis}
        defaults = {
            **_some(unit=look.unit, decimals=look.decimals, min=look.least, max=look.most, custom=custom),
            # No data is grey: who sees nothing must not say that all is well.
            "mappings": [style.nothing()] if self.name == "stat" else [],
            "thresholds": style.thresholds(look.steps),
            "color": look.colour or style.BY_THRESHOLDS,
            "noValue": look.no_value,
        }
        matcher = "byFrameRefID" if looks is None else "byName"
        own = {ref: query.properties for ref, query in by_ref} if looks is None else looks
        overrides = [_override(matcher, what, given) for what, given in own.items() if given]
        return {
            "type": self.name,
            "title": title,
            "description": description,
            "datasource": DATASOURCE,
            "options": self.options,
            "targets": targets,
            "fieldConfig": {"defaults": defaults, "overrides": overrides},
        }


def _legend(*, shown: bool = True) -> Panel:
    return {"displayMode": "list", "placement": "bottom", "showLegend": shown, "calcs": []}


def _over_time(**custom: object) -> Kind:
    options = {"legend": _legend(), "tooltip": {"mode": "multi", "sort": "desc"}}
    usual = {"lineWidth": 2, "fillOpacity": 0, "showPoints": "never", "spanNulls": False}
    return Kind("timeseries", options, {**usual, **custom})


_STACKED = {"lineWidth": 0, "fillOpacity": 70, "stacking": {"mode": "normal", "group": "A"}}
lines = _over_time()
areas = _over_time(**_STACKED)
counts = _over_time(lineInterpolation="stepAfter")
stacked_counts = _over_time(lineInterpolation="stepAfter", **_STACKED)


def _tile(colour: str = "value", *, several: bool = False, history: bool = False) -> Kind:
    """Return a kind that shows values as large figures; ``history`` draws the way there."""
    options = {
        "graphMode": "area" if history else "none",
        "colorMode": colour,
        "textMode": "value_and_name" if several else "value",
        "justifyMode": "center",
        "wideLayout": True,
        "orientation": "vertical",
        "reduceOptions": {"calcs": ["lastNotNull"], "values": False},
        # Or each value would be as large as its own text allows.
        **({"text": {"titleSize": 13, "valueSize": 22}} if several else {}),
    }
    return Kind("stat", options, is_instant=not history)


figure, figures, trend = _tile(), _tile(several=True), _tile(history=True)
filled_tile = _tile("background_solid")


def count_tile(title: str, description: str, series: str, when: str = " == 1", seen: str = "") -> Panel:
    """Return how many series are so, which should be none; no data without ``seen``, or the series."""
    look = Look(unit="short", decimals=0, steps=style.NONE_IS_GOOD)
    query = Query("", f"count({series}{when}) or 0 * count({seen or series})")
    return filled_tile(title, description, look, query)


_CELL_OPTIONS = {
    "calculate": False,
    "color": {"mode": "scheme", "scheme": "Blues", "steps": 32},
    "cellGap": 0,
    "yAxis": {"axisLabel": "acceptance of a request", "unit": "percentunit", "decimals": 0},
    "cellValues": {"unit": "cps"},
    "rowsFrame": {"layout": "auto"},
    "showValue": "auto",
    "filterValues": {"le": 1e-9},
    "legend": {"show": True},
    "tooltip": {"mode": "single"},
}
heat_over_time = Kind("heatmap", _CELL_OPTIONS, {}, form="heatmap")
"""One row of cells for each bucket of a histogram of acceptance, coloured by value."""

_TIMELINE_OPTIONS = {
    "mergeValues": True,
    "showValue": "auto",
    "alignValue": "left",
    "rowHeight": 0.8,
    "legend": _legend(shown=False),
    "tooltip": {"mode": "single", "sort": "asc"},
}
timeline = Kind("state-timeline", _TIMELINE_OPTIONS, {"fillOpacity": 75, "lineWidth": 0})
"""What a state was, and from when to when."""


def bars(
    title: str, description: str, x: str, x_title: str, look: Look, *queries: Query, overlaid: bool = False
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
    kind = Kind("barchart", options, {"lineWidth": 0, "fillOpacity": 85}, "table", is_instant=True)
    looks = {query.name: query.properties for query in queries}
    panel = kind(title, description, look, *(Query("", query.expr) for query in queries), looks=looks)
    times = ["Time", *(f"Time {number + 1}" for number in range(len(queries)))]
    panel["transformations"] = [
        {"id": "joinByField", "options": {"byField": x, "mode": "outer"}},
        _organized({x: x_title, **{value: query.name for value, query in _values(queries).items()}}, times),
        {"id": "sortBy", "options": {"sort": [{"field": x_title}]}},
    ]
    return panel


def table(
    title: str,
    description: str,
    keys: Mapping[str, str],
    *columns: Query,
    looks: Looks | None = None,
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
    options |= {"sortBy": [{"displayName": worst, "desc": True}]} if worst else {}
    kind = Kind("table", options, {"minWidth": 90}, "table", is_instant=True)
    look = Look(unit="short", steps=style.NEUTRAL, no_value=no_value)
    own = {column.name: column.properties for column in columns}
    panel = kind(title, description, look, *columns, looks={**(looks or {}), **own})
    values = _values(columns)
    titles = {**keys, **{column.label or value: column.name for value, column in values.items()}}
    hidden = ["Time", *(value for value, column in values.items() if column.label)]
    panel["transformations"] = [{"id": "merge", "options": {}}, _organized(titles, hidden, order, last)]
    # What the panel says when it is empty must not stand in every empty cell.
    panel["fieldConfig"]["overrides"].append(_override("byRegexp", ".*", {"noValue": _DASH}))
    return panel


def _values(queries: Sequence[Query]) -> dict[str, Query]:
    """Return the queries of a table by Grafana's names of their values."""
    names = ["Value"] if len(queries) == 1 else [f"Value #{letter}" for letter in ascii_uppercase]
    return dict(zip(names, queries, strict=False))


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
    coloured = {"thresholds": style.thresholds(steps), "mappings": [style.nothing(text=_DASH)]}
    return {"custom.cellOptions": kind, **wide(**look), **coloured}


def wide(width: int | None = None, **look: Any) -> Panel:  # noqa: ANN401
    """Return the properties of a column of N pixels."""
    return look if width is None else {"custom.width": width, **look}
