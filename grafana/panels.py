"""The kinds of panels. A panel is its words, its queries and how its values look; the rest is as always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from grafana_foundation_sdk.builders import (
    barchart,
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models import heatmap as heat
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

from grafana import style
from grafana.style import Steps, Words
from grafana.variables import DATASOURCE

Panel = dashboard.Panel
Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One expression, the name of its series, and what is special about the look of them."""

    expr: str
    legend: str = ""
    properties: Properties = field(default_factory=dict)
    """Field options of this query's series alone, by Grafana's names: ``{"unit": "s"}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Format of values."""

    unit: str
    decimals: int | None = None
    least: float | None = None
    most: float | None = None
    steps: Steps = style.PLAIN
    words: Words = ()
    colour: dashboard.FieldColor | None = None
    no_value: str = "no data"
    axis: tuple[float | None, float | None] = (None, None)
    """What an axis shows at least, though the values may go beyond."""


def line(colour: str, properties: Properties | None = None) -> dict[str, Any]:
    """Return the properties of a line of one colour."""
    return {"color": style.fixed(colour), **(properties or {})}


def dashed(colour: str) -> dict[str, Any]:
    """Return the properties of a line that is compared with, not measured."""
    return line(colour, {"custom.lineStyle": {"fill": "dash", "dash": [8, 8]}, "custom.fillOpacity": 0})


def band(lower: str, upper: str, names: tuple[str, str], colour: str) -> tuple[Query, Query]:
    """Return the queries of two bounds, with the space between them filled."""
    bare = line(colour, {"custom.lineWidth": 0, "custom.hideFrom": _not_in_legend()})
    filled = {**bare, "custom.fillBelowTo": names[0], "custom.fillOpacity": 18}
    return Query(lower, names[0], {**bare, "custom.fillOpacity": 0}), Query(upper, names[1], filled)


def _not_in_legend() -> dict[str, bool]:
    return {"legend": True, "tooltip": False, "viz": False}


def text_of(words: Words) -> dict[str, Any]:
    """Return the properties of values that stand for words."""
    return {
        "mappings": style.mappings(words),
        "color": style.by_thresholds(),
        "thresholds": style.thresholds(style.NEUTRAL),
    }


def _properties(given: Properties) -> list[dashboard.DynamicConfigValue]:
    return [dashboard.DynamicConfigValue(id_val=name, value=value) for name, value in given.items()]


def _override(matcher: str, what: str, given: Properties) -> dashboard.DashboardFieldConfigSourceOverrides:
    return dashboard.DashboardFieldConfigSourceOverrides(
        matcher=dashboard.MatcherConfig(id_val=matcher, options=what), properties=_properties(given)
    )


def _target(query: Query, ref: str, form: PromQueryFormat, *, instant: bool) -> prometheus.Dataquery:
    asked = prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto").ref_id(ref)
    asked = asked.datasource(DATASOURCE).editor_mode(QueryEditorMode.CODE)
    asked = asked.format(form)
    return asked.instant() if instant else asked.range()


def _defaults(look: Look, custom: object) -> dashboard.FieldConfig:
    return dashboard.FieldConfig(
        unit=look.unit,
        decimals=look.decimals,
        min_val=look.least,
        max_val=look.most,
        mappings=style.mappings(look.words) if look.words else [],
        thresholds=style.thresholds(look.steps),
        color=look.colour or style.by_thresholds(),
        no_value=look.no_value,
        custom=custom,
    )


def finished(
    builder: Builder[Panel],
    title: str,
    description: str,
    queries: Sequence[Query],
    look: Look,
    *,
    instant: bool = False,
    form: PromQueryFormat = PromQueryFormat.TIME_SERIES,
) -> Panel:
    """Give a panel of any kind what all panels have."""
    panel = builder.build()
    panel.title, panel.description, panel.datasource = title, description, DATASOURCE
    refs = [reference(number) for number in range(len(queries))]
    panel.targets = [
        _target(query, ref, form, instant=instant).build() for query, ref in zip(queries, refs, strict=True)
    ]
    custom = panel.field_config.defaults.custom if panel.field_config else None
    overrides = [
        _override("byFrameRefID", ref, query.properties)
        for query, ref in zip(queries, refs, strict=True)
        if query.properties
    ]
    panel.field_config = dashboard.FieldConfigSource(defaults=_defaults(look, custom), overrides=overrides)
    return panel


def reference(number: int) -> str:
    """Return the name of a panel's query: A, B … Z, AA and so on."""
    more, last = divmod(number, len(ascii_uppercase))
    return (reference(more - 1) if more else "") + ascii_uppercase[last]


def named(panel: Panel, properties: Mapping[str, Properties]) -> Panel:
    """Give series or columns of a certain name an own look."""
    overrides = [_override("byName", name, given) for name, given in properties.items()]
    panel.field_config = _with_overrides(panel, overrides)
    return panel


def _with_overrides(
    panel: Panel, overrides: Sequence[dashboard.DashboardFieldConfigSourceOverrides]
) -> dashboard.FieldConfigSource:
    config = panel.field_config or dashboard.FieldConfigSource()
    return dashboard.FieldConfigSource(config.defaults, [*config.overrides, *overrides])


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
    builder = (
        timeseries.Panel()
        .line_width(0 if stacked else 2)
        .fill_opacity(70 if stacked else 0)
        .show_points(options.VisibilityMode.NEVER)
        .span_nulls(False)
        .legend(_legend())
        .tooltip(
            common.VizTooltipOptions()
            .mode(options.TooltipDisplayMode.MULTI)
            .sort(options.SortOrder.DESCENDING)
        )
    )
    if stepped:
        builder = builder.line_interpolation(options.LineInterpolation.STEP_AFTER)
    lower, upper = look.axis
    if lower is not None:
        builder = builder.axis_soft_min(lower)
    if upper is not None:
        builder = builder.axis_soft_max(upper)
    if stacked:
        builder = builder.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL).group("A"))
    if limit:
        drawn = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
        builder = builder.thresholds_style(drawn)
    return finished(builder, title, description, queries, look)


def _legend(*, shown: bool = True) -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(options.LegendDisplayMode.LIST)
        .placement(options.LegendPlacement.BOTTOM)
        .show_legend(shown)
        .calcs([])
    )


def stat_tile(
    title: str,
    description: str,
    queries: Sequence[Query],
    look: Look,
    *,
    filled: bool = False,
    history: bool = False,
    upright: bool = False,
) -> Panel:
    """Return values as large figures: ``filled`` colours the tile, ``history`` draws the way there."""
    several = len(queries) > 1 or "{{" in queries[0].legend
    builder = (
        stat.Panel()
        .graph_mode(options.BigValueGraphMode.AREA if history else options.BigValueGraphMode.NONE)
        .color_mode(options.BigValueColorMode.BACKGROUND_SOLID if filled else options.BigValueColorMode.VALUE)
        .text_mode(options.BigValueTextMode.VALUE_AND_NAME if several else options.BigValueTextMode.VALUE)
        .justify_mode(options.BigValueJustifyMode.CENTER)
        .wide_layout(True)
        .orientation(options.VizOrientation.HORIZONTAL if upright else options.VizOrientation.VERTICAL)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    )
    if several and not filled:
        # Or each value would be as large as its own text allows.
        builder = builder.text(common.VizTextDisplayOptions().title_size(13).value_size(22))
    panel = finished(builder, title, description, queries, look, instant=not history)
    return _grey_without_data(panel)


def _grey_without_data(panel: Panel) -> Panel:
    """Paint no data grey: who sees nothing must not say that all is well."""
    config = panel.field_config or dashboard.FieldConfigSource()
    config.defaults.mappings = [*(config.defaults.mappings or []), style.nothing(None)]
    panel.field_config = config
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
    builder = _bar_chart(x_title, overlaid=overlaid, legend=len(queries) > 1)
    if limit:
        drawn = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
        builder = builder.thresholds_style(drawn)
    plain = [Query(query.expr) for query in queries]
    panel = finished(builder, title, description, plain, look, instant=True, form=PromQueryFormat.TABLE)
    values = {_value(number, len(queries)): query.legend for number, query in enumerate(queries)}
    times = ["Time", *(f"Time {number + 1}" for number in range(len(queries)))]
    panel.transformations = [_joined(x), _organized({x: x_title, **values}, times), _sorted(x_title)]
    return named(panel, {query.legend: query.properties for query in queries if query.properties})


def _bar_chart(x: str, *, overlaid: bool = False, legend: bool = False) -> barchart.Panel:
    return (
        barchart.Panel()
        .x_field(x)
        .orientation(options.VizOrientation.VERTICAL)
        .show_value(options.VisibilityMode.AUTO)
        .stacking(options.StackingMode.NORMAL if overlaid else options.StackingMode.NONE)
        .group_width(0.75)
        .bar_width(0.9)
        .bar_radius(0.05)
        .fill_opacity(85)
        .line_width(0)
        .legend(_legend(shown=legend))
    )


def _joined(label: str) -> dashboard.DataTransformerConfig:
    return dashboard.DataTransformerConfig(id_val="joinByField", options={"byField": label, "mode": "outer"})


def _sorted(column: str) -> dashboard.DataTransformerConfig:
    return dashboard.DataTransformerConfig(id_val="sortBy", options={"sort": [{"field": column}]})


def heat_over_time(title: str, description: str, query: Query, look: Look, *, y_title: str) -> Panel:
    """Return one row of cells for each bucket of a histogram, coloured by value."""
    colours = heatmap.HeatmapColorOptions().mode(heat.HeatmapColorMode.SCHEME).scheme("Blues").steps(32)
    builder = (
        heatmap.Panel()
        .calculate(False)
        .color(colours)
        .cell_gap(0)
        .y_axis(heatmap.YAxisConfig().axis_label(y_title).unit("percentunit").decimals(0))
        .cell_values(heatmap.CellValues().unit(look.unit))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(options.HeatmapCellLayout.AUTO))
        .show_legend()
    )
    return finished(builder, title, description, [query], look, form=PromQueryFormat.HEATMAP)


def timeline(title: str, description: str, queries: Sequence[Query], look: Look) -> Panel:
    """Return what a state was, and from when to when."""
    builder = (
        statetimeline.Panel()
        .merge_values(True)
        .show_value(options.VisibilityMode.AUTO)
        .align_value(options.TimelineValueAlignment.LEFT)
        .row_height(0.8)
        .fill_opacity(75)
        .line_width(0)
        .legend(_legend(shown=False))
    )
    return finished(builder, title, description, queries, look)


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
    looks: Mapping[str, Properties],
    order: Sequence[str] = (),
    last: str = "",
    worst: str = "",
    no_value: str = "no data",
) -> Panel:
    """Return a table with a row for each combination of the labels ``keys``.

    Args:
        title: What it shows.
        description: What it means.
        keys: The labels that tell the rows apart, with the titles of their columns.
        columns: The other columns.
        looks: Properties of the keys' columns, by title.
        order: The columns to the left, by title; the others follow as given, the keys first.
        last: The column to the right, by title.
        worst: The column by which it is sorted, the highest first.
        no_value: What it says when there is none.
    """
    builder = table.Panel().show_header(True).cell_height(options.TableCellHeight.SM).min_width(90)
    if worst:
        builder = builder.sort_by([common.TableSortByFieldState().display_name(worst).desc(True)])
    queries = [Query(column.expr, column.title) for column in columns]
    look = Look(unit="short", colour=style.by_thresholds(), steps=style.NEUTRAL, no_value=no_value)
    panel = finished(builder, title, description, queries, look, instant=True, form=PromQueryFormat.TABLE)
    panel.transformations = [
        dashboard.DataTransformerConfig(id_val="merge", options={}),
        _organized(*_fields(keys, columns), order, last),
    ]
    own = {column.title: column.properties for column in columns if column.properties}
    named(panel, {**looks, **own})
    # What the panel says when it is empty must not stand in every empty cell.
    blank = _override("byRegexp", ".*", {"noValue": "\u2013"})
    panel.field_config = _with_overrides(panel, [blank])
    return panel


def _value(number: int, of: int) -> str:
    """Return how Grafana calls the values of a table's query."""
    return "Value" if of == 1 else f"Value #{reference(number)}"


def _fields(keys: Mapping[str, str], columns: Sequence[Column]) -> tuple[dict[str, str], list[str]]:
    """Return the titles by field, and the fields to leave out."""
    shown, hidden = dict(keys), ["Time"]
    for number, column in enumerate(columns):
        value = _value(number, len(columns))
        if column.label:
            hidden.append(value)
        shown[column.label or value] = column.title
    return shown, hidden


def _organized(
    titles: Mapping[str, str], hidden: Sequence[str], order: Sequence[str] = (), last: str = ""
) -> dashboard.DataTransformerConfig:
    """Name, order and leave out fields."""
    places = {title: place for place, title in enumerate(order)} | {last: len(titles) + 1}
    fields = sorted(titles, key=lambda name: places.get(titles[name], len(titles)))
    return dashboard.DataTransformerConfig(
        id_val="organize",
        options={
            "excludeByName": dict.fromkeys(hidden, True),
            "indexByName": {name: place for place, name in enumerate(fields)},
            "renameByName": dict(titles),
        },
    )


def cell(steps: Steps = (), words: Words = (), *, filled: bool = True, **look: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the properties of a column whose cells are coloured, by thresholds or by words.

    ``look`` is what else the column has: ``width``, ``unit``, ``decimals``.
    """
    kind = {"type": "color-background", "mode": "basic"} if filled else {"type": "color-text"}
    if words:
        return {
            "custom.cellOptions": kind,
            "custom.align": "left",
            **wide(**look),
            "mappings": style.mappings(words),
        }
    coloured = {"thresholds": style.thresholds(steps), "mappings": [style.nothing()]}
    return {"custom.cellOptions": kind, **wide(**look), **coloured}


def wide(width: int | None = None, **look: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the properties of a column of N pixels."""
    return look if width is None else {"custom.width": width, **look}


def palette(words: Words) -> dict[str, Properties]:
    """Return the colours of series that are named as the values of a state set."""
    return {word.value: {"color": style.fixed(word.colour)} for word in words}
