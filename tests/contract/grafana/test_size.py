"""Limits of what a dashboard asks of Prometheus and of its reader at the first look."""

from __future__ import annotations

from .shipped import BOARDS, each_board, panels_of

EXPRESSION = 1_000
"""Characters: more is neither read in an editor nor, for long time ranges, answered soon."""

PANELS, QUERIES = 20, 40
"""Before a collapsed row is opened; Grafana asks for nothing in it until then."""


def first_look(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(board):
    """Return what is asked again at every refresh: the panels' queries and the marks; not the variables."""
    marks = [mark["expr"] for mark in board["annotations"]["list"]]
    return marks + [target["expr"] for panel in first_look(board) for target in panel["targets"]]


@each_board
def test_no_expression_is_longer_than_one_can_read(board):
    texts = [str(variable.get("definition", "")) for variable in board["templating"]["list"]]
    texts += [mark["expr"] for mark in board["annotations"]["list"]]
    texts += [target["expr"] for panel in panels_of(board) for target in panel["targets"]]
    assert max(map(len, texts)) <= EXPRESSION


def test_a_dashboard_has_no_more_panels_than_its_question_needs():
    panels = {uid: sum(map(len, rows(board).values())) for uid, board in BOARDS.items()}
    assert panels["spec-decode-engine"] <= 20
    assert panels["spec-decode-requests"] <= 12


@each_board
def test_the_first_look_has_at_most_twenty_panels_and_forty_queries_marks_included(board):
    assert len(first_look(board)) <= PANELS
    assert len(queries(board)) <= QUERIES


def rows(board):
    """Return the titles of panels under each heading, in their order; those before the first heading first."""
    found = {"": []}
    for panel in board["panels"]:
        if panel["type"] == "row":
            found[panel["title"]] = [inner["title"] for inner in panel["panels"] or ()]
        else:
            found[list(found)[-1]].append(panel["title"])
    return found


def test_the_engine_dashboard_answers_questions_in_the_order_of_an_operator():
    asked = list(rows(BOARDS["spec-decode-engine"]).items())
    assert [titles[0] for _, titles in asked[:5]] == [
        "Verdict",
        "Speed-up, with its bounds",
        "Acceptance, with its bounds",
        "Draft cost, and where it breaks even",
        "Time per output token",
    ]
    assert asked[0][1][1] == "Advice"


def test_only_causes_are_in_collapsed_rows_of_the_engine_dashboard():
    collapsed = [
        panel["collapsed"] for panel in BOARDS["spec-decode-engine"]["panels"] if panel["type"] == "row"
    ]
    assert collapsed == [False] * 4 + [True] * 4


@each_board
def test_a_collapsed_row_holds_its_panels_and_an_open_one_none(board):
    for panel in board["panels"]:
        if panel["type"] == "row":
            assert bool(panel["panels"]) == panel["collapsed"]
