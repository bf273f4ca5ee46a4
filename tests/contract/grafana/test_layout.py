"""Places and titles of panels, variables that are used, what the first look asks of Prometheus, and files that load all."""

import json
import re
from itertools import combinations

import promql_parser as promql
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.__main__ import BOARDS as GENERATED
from grafana.style import Colour
from tests.contract.promql import selectors

from .shipped import BOARDS, FOLDER, each_board, each_panel, interpolated, panels_of

PANELS, QUERIES = 20, 40  # before a collapsed row is opened; Grafana asks for nothing in it until then


def test_the_three_dashboards_are_there():
    expected = {f"spec-decode-{name}" for name in ("overview", "engine", "requests")}
    assert set(BOARDS) == set(GENERATED) == {board["uid"] for board in BOARDS.values()} == expected
    assert len({board["title"] for board in BOARDS.values()}) == 3


@each_board
def test_no_panels_overlap_and_no_place_is_left_empty(board):
    """A collapsed row's panels are seen only among themselves."""
    collapsed = (row["panels"] for row in board["panels"] if row.get("panels"))
    for group in (board["panels"], *collapsed):
        cells = []
        for panel in group:
            at = panel["gridPos"]
            columns, rows = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
            cells.append((panel["title"], {(x, y) for x in columns for y in rows}))
        for (one, here), (other, there) in combinations(cells, 2):
            assert not here & there, (one, other)
        taken = set().union(*(each for _, each in cells))
        rows = {y for _, y in taken}
        assert taken == {(x, y) for x in range(24) for y in range(min(rows), max(rows) + 1)}


@each_board
def test_ids_titles_and_query_names_are_unique(board):
    panels = list(panels_of(board))
    for names in (
        [panel["id"] for panel in panels_of(board, rows=True)],
        [panel["title"] for panel in panels],
        *([target["refId"] for target in panel["targets"]] for panel in panels),
    ):
        assert len(names) == len(set(names))


@each_board
def test_variables_are_those_that_are_used(board):
    variables = [variable for variable in board["templating"]["list"] if variable["type"] != "adhoc"]
    places = {variable["name"]: str(variable.get("query")) for variable in variables}
    text = str([board["panels"], board["annotations"]])
    for name in places:
        others = [query for other, query in places.items() if other != name]
        assert any(re.search(rf"\$\{{?{name}\b", place) for place in (text, *others)), name
    assert set(re.findall(r"\$\{?([a-z]\w*)", f"{text}{board['templating']}")) <= places.keys()


@each_board
def test_a_link_leads_to_a_dashboard_and_sets_its_variables(board):
    for uid, query in re.findall(r"/d/([\w-]+)(?:\?([^'\"]*))?", str(board)):
        known = {variable["name"] for variable in BOARDS[uid]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", query)) <= known
    assert board["tags"] == ["spec-decode"]
    assert [(link["type"], link["tags"], link["keepTime"]) for link in board["links"]] == [
        ("dashboards", ["spec-decode"], True),
        ("dashboards", ["vllm"], True),
    ]


@each_board
def test_the_first_look_has_at_most_twenty_panels_and_forty_queries_marks_included(board):
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(panels) <= PANELS
    assert len(board["annotations"]["list"]) + sum(len(panel["targets"]) for panel in panels) <= QUERIES


# What queries select, and what a tile shows without a value

NOT_OURS = {"ALERTS", "ALERTS_FOR_STATE"}  # alerts of a whole model have neither job nor instance


@pytest.mark.parametrize("label", ["job", "instance"])
@each_board
def test_every_query_selects_the_chosen_job_and_instance(board, label):
    """Marks may also be of alerts of a whole model, which have no such label."""

    chosen = f"chosen_{label}"
    queries = [(target["expr"], False) for panel in panels_of(board) for target in panel["targets"]]
    marks = [(mark["expr"], True) for mark in board["annotations"]["list"]]
    for expr, is_mark in (*queries, *marks):
        for selector in selectors(interpolated(expr.replace(f"${label}", chosen))):
            found = [(one.name, one.op, one.value) for one in selector.matchers.matchers]
            if is_mark:
                expected = f"{chosen}|" if selector.name in NOT_OURS else chosen
                assert (label, expected) in [(name, value) for name, _, value in found]
            else:
                assert selector.name in NOT_OURS or (label, promql.MatchOp.Re, chosen) in found


@each_panel
def test_who_sees_nothing_does_not_say_that_all_is_well(panel):
    assert not any("vector(" in target["expr"] for target in panel.panel["targets"])
    if panel.panel["type"] == "stat":
        mapping = panel.panel["fieldConfig"]["defaults"]["mappings"][-1]
        assert mapping["options"] == {"match": "null+nan", "result": {"color": Colour.UNKNOWN, "index": 0}}


# Nothing is lost on the way to Grafana


def missing(written, read, path=""):
    """Return the keys of what was written that are not in what was read, or have another value there."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            yield from missing(value, read.get(key, "no such key"), f"{path}.{key}")
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for one, other in zip(written, read, strict=True):
            yield from missing(one, other, f"{path}[]")
    elif written != read:
        yield f"{path}: {written!r} is {read!r}"


@each_board
def test_every_key_is_one_that_grafana_knows(board):
    """Reading drops what the types do not have, so a misspelled key would be missing afterwards."""
    register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert list(missing(board, read)) == []


@each_board
def test_a_configmap_holds_it(board):
    """`kubectl apply` keeps the last object in an annotation of at most 256 KiB."""
    assert len(json.dumps(board, indent=2)) < 200_000


# The files beside the dashboards

GRAFANA = FOLDER.parent
DASHBOARDS = {path.relative_to(GRAFANA).as_posix() for path in FOLDER.iterdir()}


def test_every_dashboard_becomes_a_configmap_that_the_sidecar_of_grafana_finds():
    kustomization = yaml.safe_load((GRAFANA / "kustomization.yaml").read_text(encoding="utf-8"))
    generated = {entry["name"]: entry["files"] for entry in kustomization["configMapGenerator"]}
    assert generated == {name: [f"dashboards/{name}.json"] for name in generated}
    assert {file for files in generated.values() for file in files} == DASHBOARDS
    assert kustomization["generatorOptions"]["labels"]["grafana_dashboard"] == "1"
