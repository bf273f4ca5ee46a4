"""The committed files are what the code says, and nothing in them is lost on the way to Grafana."""

from __future__ import annotations

import json

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.__main__ import BOARDS, FOLDER, documents, main

from .shipped import each_board


@pytest.mark.parametrize(("name", "text"), list(documents()), ids=[name for name, _ in documents()])
def test_the_committed_file_is_current(name, text):
    assert (FOLDER / name).read_text(encoding="utf-8") == text, "run `make dashboards`"


def test_there_are_no_other_files():
    assert {path.name for path in FOLDER.iterdir()} == {name for name, _ in documents()}


@each_board
def test_a_file_is_named_after_its_uid(board):
    assert board["uid"] in BOARDS
    assert (FOLDER / f"{board['uid']}.json").exists()


def test_they_are_written_to_the_folder_given(tmp_path):
    main([str(tmp_path / "new")])
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "new").iterdir()}
    assert written == dict(documents())


@each_board
def test_every_key_is_one_that_grafana_knows(board):
    """Reading drops what the types do not have, so a misspelled key would be missing afterwards."""
    register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert read == board


@each_board
def test_a_configmap_holds_it(board):
    """`kubectl apply` keeps the last object in an annotation of at most 256 KiB."""
    assert len(json.dumps(board, indent=2)) < 200_000
