"""The pictures in the documentation show the dashboards as they are."""

from __future__ import annotations

import copy
import zlib
from pathlib import Path

import pytest

from grafana.pictures import fingerprint, picture_of, stamp_of, stamped

from .shipped import BOARDS, each_board

DOCS = Path(__file__).parents[2] / "docs"
ENGINE = BOARDS["spec-decode-engine"]


def picture(board):
    return DOCS / "images" / picture_of(board["uid"])


@each_board
def test_the_picture_shows_the_dashboard_as_it_is(board):
    path, now = picture(board), fingerprint(board)
    shown = stamp_of(path.read_bytes())
    assert shown == now, f"{path.name} is of another version: run `make dashboards-pictures`, and look at it"


@each_board
def test_the_page_about_dashboards_shows_the_picture(board):
    assert f"(../images/{picture_of(board['uid'])})" in (DOCS / "guide/dashboards.md").read_text(
        encoding="utf-8"
    )


@each_board
def test_a_picture_is_small(board):
    assert picture(board).stat().st_size < 400_000


def first(board, kind):
    return next(panel for panel in board["panels"] if panel["type"] == kind)


SEEN = {
    "title of the dashboard": lambda board: board.update(title="another"),
    "title of a panel": lambda board: first(board, "stat").update(title="another"),
    "kind of a panel": lambda board: first(board, "stat").update(type="gauge"),
    "place of a panel": lambda board: first(board, "stat")["gridPos"].update(w=5),
    "expression": lambda board: first(board, "stat")["targets"][0].update(expr="up"),
    "legend": lambda board: first(board, "stat")["targets"][0].update(legendFormat="another"),
    "unit": lambda board: first(board, "stat")["fieldConfig"]["defaults"].update(unit="s"),
    "options": lambda board: first(board, "stat")["options"].update(colorMode="none"),
    "transformation": lambda board: first(board, "barchart")["transformations"].pop(),
    "one panel less": lambda board: board["panels"].remove(first(board, "stat")),
    "title of a row": lambda board: first(board, "row").update(title="another"),
    "an opened row": lambda board: first(board, "row").update(collapsed=True),
    "mark": lambda board: board["annotations"]["list"][0].update(iconColor="blue"),
    "variable": lambda board: board["templating"]["list"][1].update(label="another"),
}
UNSEEN = {
    "description of the dashboard": lambda board: board.update(description="another"),
    "description of a panel": lambda board: first(board, "stat").update(description="another"),
    "number of a panel": lambda board: first(board, "stat").update(id=999),
    "version": lambda board: board.update(version=7, schemaVersion=99),
    "panel of a collapsed row": lambda board: board["panels"][-1]["panels"].pop(),
}


@pytest.mark.parametrize("change", SEEN)
def test_a_change_that_is_seen_wants_a_new_picture(change):
    board = copy.deepcopy(ENGINE)
    SEEN[change](board)
    assert fingerprint(board) != fingerprint(ENGINE)


@pytest.mark.parametrize("change", UNSEEN)
def test_a_change_that_is_not_seen_wants_none(change):
    board = copy.deepcopy(ENGINE)
    UNSEEN[change](board)
    assert board != ENGINE
    assert fingerprint(board) == fingerprint(ENGINE)


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


HEADER = chunk(b"IHDR", bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]))
REST = chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
PNG = b"\x89PNG\r\n\x1a\n" + HEADER + REST


def test_a_mark_is_a_text_chunk_behind_the_header():
    assert stamped(PNG, "abc") == PNG.replace(HEADER, HEADER + chunk(b"tEXt", b"Dashboard\0abc"))


def test_a_mark_is_read_again():
    assert stamp_of(PNG) is None
    assert stamp_of(stamped(PNG, "abc")) == "abc"


def test_a_new_mark_replaces_the_old_one():
    assert stamped(stamped(PNG, "old"), "new") == stamped(PNG, "new")


@pytest.mark.parametrize("data", [b"", b"GIF89a", PNG[:-1]])
def test_what_is_no_whole_picture_is_an_error(data):
    with pytest.raises(ValueError, match="PNG"):
        stamp_of(data)
