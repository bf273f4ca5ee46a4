"""The Perses dashboard has the panels, queries, words and variables of the Grafana dashboard, in Perses' form."""

from __future__ import annotations

import json
import re

import pytest

from grafana.__main__ import IN_PERSES, ROOT
from grafana.perses_dashboard import perses
from tests.every import every

from .shipped import BOARDS, panels_of

GRAFANA = BOARDS[IN_PERSES]
PERSES = json.loads((ROOT / "perses" / f"{IN_PERSES}.json").read_text(encoding="utf-8"))
PANELS = PERSES["spec"]["panels"]
VARIABLES = {one["spec"]["name"]: one["spec"] for one in PERSES["spec"]["variables"]}

LEFT_OUT = {"Speed-up against load", "Spread of acceptance"}
"""An XY chart, and a heatmap of the buckets of a classic histogram."""

FORMAT = {"unit", "decimalPlaces", "shortValues"}
FORMS = {
    "StatChart": {"calculation", "format", "thresholds", "colorMode", "mappings"},
    "TimeSeriesChart": {"legend", "yAxis", "visual", "querySettings"},
    "StatusHistoryChart": {"legend", "mappings"},
    "BarChart": {"calculation", "format", "mode"},
    "PrometheusTimeSeriesQuery": {"query", "seriesNameFormat"},
    "PrometheusLabelValuesVariable": {"labelName", "matchers"},
}
"""Used fields of each plugin, of those in perses/plugins (schemas/*.cue, commit c69fda3f), which are closed."""
UNITS = {"decimal", "percent-decimal", "seconds", "counts/sec"}


def inside(value):
    """Yield every object in a document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from inside(one)


def plugins():
    return [one for one in inside(PERSES) if one.get("kind") in FORMS]


@every(plugins(), lambda one: one["kind"])
def test_a_plugin_has_only_fields_that_perses_knows(plugin):
    assert set(plugin["spec"]) <= FORMS[plugin["kind"]]


def test_every_plugin_is_one_of_perses():
    used = {one["plugin"]["kind"] for one in inside(PERSES) if "plugin" in one}
    assert used == set(FORMS)


def test_every_unit_and_colour_is_one_that_perses_takes():
    for one in inside(PERSES):
        if "unit" in one:
            assert set(one) <= FORMAT
            assert one["unit"] in UNITS
        for key in {"color", "colorValue", "defaultColor"} & set(one):
            assert re.fullmatch("#[0-9a-f]{6}", one[key])


def test_every_query_of_grafana_is_there_once_but_those_of_charts_that_perses_lacks():
    queries = [
        query["spec"]["plugin"]["spec"]["query"]
        for panel in PANELS.values()
        for query in panel["spec"]["queries"]
    ]
    wanted = [
        target["expr"]
        for panel in panels_of(GRAFANA)
        if panel["title"] not in LEFT_OUT
        for target in panel["targets"]
    ]
    assert sorted(queries) == sorted(wanted)
    titles = {panel["title"] for panel in panels_of(GRAFANA)}
    assert titles >= LEFT_OUT


def test_every_variable_of_a_query_is_defined_or_of_perses():
    text = json.dumps(PANELS) + json.dumps([one["plugin"] for one in VARIABLES.values()])
    assert set(re.findall(r"\$(\w+)", text)) <= {*VARIABLES, "__rate_interval", "__range"}


def test_variables_keep_their_choices():
    assert VARIABLES["job"]["customAllValue"] == ".+"
    assert (VARIABLES["job"]["allowMultiple"], VARIABLES["target"]["allowMultiple"]) == (True, False)
    assert (VARIABLES["short"]["defaultValue"], VARIABLES["long"]["defaultValue"]) == ("30s", "5m")


def test_words_belong_to_the_query_that_they_are_for():
    named = {panel["spec"]["display"]["name"]: panel["spec"]["plugin"]["spec"] for panel in PANELS.values()}
    words = {each["spec"]["result"]["value"] for each in named["Advice"]["mappings"]}
    assert "draft fewer" in words
    assert "mappings" not in named["Advice: K now"]
    verdicts = named["What it was, and since when: Verdict"]["mappings"]
    assert {"value": "6", "result": {"value": "harmful", "color": "#f2495c"}} in [
        one["spec"] for one in verdicts
    ]


def test_every_panel_has_one_place_and_no_two_overlap():
    shown = []
    for layout in PERSES["spec"]["layouts"]:
        cells = set()
        for item in layout["spec"]["items"]:
            shown.append(item["content"]["$ref"])
            covered = {
                (x, y)
                for x in range(item["x"], item["x"] + item["width"])
                for y in range(item["y"], item["y"] + item["height"])
            }
            assert not covered & cells
            assert max(x for x, _ in covered) < 24
            cells |= covered
    assert sorted(shown) == sorted(f"#/spec/panels/{key}" for key in PANELS)


def test_sections_keep_their_titles_and_are_open_as_in_grafana():
    rows = [panel for panel in GRAFANA["panels"] if panel["type"] == "row"]
    titled = [
        layout["spec"]["display"] for layout in PERSES["spec"]["layouts"] if "display" in layout["spec"]
    ]
    assert titled == [{"title": row["title"], "collapse": {"open": not row["collapsed"]}} for row in rows]


def test_a_variable_that_perses_cannot_ask_for_is_named():
    variable = {"name": "x", "label": "x", "type": "query", "definition": "metrics(.+)"}
    with pytest.raises(ValueError, match=r"x: metrics"):
        perses({**GRAFANA, "templating": {"list": [variable]}})


def test_a_choice_of_fixed_values_keeps_them():
    made = perses(BOARDS["spec-decode-experiments"])["spec"]["variables"]
    (compare,) = [one["spec"] for one in made if one["spec"]["name"] == "compare"]
    assert compare["plugin"]["kind"] == "StaticListVariable"
    assert compare["plugin"]["spec"]["values"][:2] == ["arm", "variant"]
