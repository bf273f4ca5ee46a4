"""Places of panels, unique titles, and variables that are used."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from grafana.__main__ import BOARDS as GENERATED

from .shipped import BOARDS, each_board, each_panel, panels_of


def cells(panel):
    where = panel["gridPos"]
    return {
        (x, y)
        for x in range(where["x"], where["x"] + where["w"])
        for y in range(where["y"], where["y"] + where["h"])
    }


def groups(board):
    """Return the panels that are seen at the same time: a collapsed row's only among themselves."""
    yield board["panels"]
    yield from (row["panels"] for row in board["panels"] if row.get("panels"))


def test_the_three_dashboards_are_there():
    expected = {f"spec-decode-{name}" for name in ("overview", "engine", "requests")}
    assert set(BOARDS) == set(GENERATED) == expected
    assert {board["uid"] for board in BOARDS.values()} == expected
    assert len({board["title"] for board in BOARDS.values()}) == 3


@each_board
def test_no_panels_overlap_and_no_place_is_left_empty(board):
    for group in groups(board):
        for one, other in combinations(group, 2):
            assert not cells(one) & cells(other), (one["title"], other["title"])
        taken = set().union(*(cells(panel) for panel in group))
        rows = {y for _, y in taken}
        assert taken == {(x, y) for x in range(24) for y in rows}
        assert rows == set(range(min(rows), max(rows) + 1))


@each_board
def test_ids_titles_and_query_names_are_unique(board):
    panels = list(panels_of(board))
    for names in (
        [panel["id"] for panel in panels_of(board, rows=True)],
        [panel["title"] for panel in panels],
        *([target["refId"] for target in panel["targets"]] for panel in panels),
    ):
        assert len(names) == len(set(names))


@each_panel
def test_a_look_is_for_something_that_is_there(panel):
    refs = {target["refId"] for target in panel.panel["targets"]}
    for override in panel.panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        if matcher["id"] == "byFrameRefID":
            assert matcher["options"] in refs
        assert override["properties"]


@each_board
def test_every_variable_is_used(board):
    text = str([board["panels"], board["annotations"]])
    definitions = {variable["name"]: str(variable.get("query")) for variable in board["templating"]["list"]}
    for name in definitions:
        pattern = rf"\$\{{?{name}\b"
        others = [query for other, query in definitions.items() if other != name]
        assert any(re.search(pattern, place) for place in (text, *others)), name


@each_board
def test_every_variable_that_is_used_is_there(board):
    names = {variable["name"] for variable in board["templating"]["list"]}
    used = set()
    for place in (board["panels"], board["annotations"], board["templating"]):
        used |= set(re.findall(r"\$\{?([a-z]\w*)", str(place)))
    assert used <= names


@pytest.mark.parametrize("value", [".+"])
@each_board
def test_a_choice_of_many_starts_with_all(board, value):
    for variable in board["templating"]["list"]:
        if variable["multi"]:
            assert (variable["allValue"], variable["current"]["value"]) == (value, ["$__all"])


@each_board
def test_a_link_sets_variables_that_the_dashboard_has(board):
    assert set(re.findall(r"/d/([\w-]+)", str(board))) <= set(BOARDS)
    for uid, query in re.findall(r"/d/([\w-]+)\?([^'\"]*)", str(board)):
        names = {variable["name"] for variable in BOARDS[uid]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", query)) <= names


@each_board
def test_all_dashboards_are_found_by_their_tag(board):
    assert board["tags"] == ["spec-decode"]
    (link,) = board["links"]
    assert (link["type"], link["tags"], link["keepTime"]) == ("dashboards", ["spec-decode"], True)
