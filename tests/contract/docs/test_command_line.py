"""docs/reference/command-line.md is generated from the parsers of the commands."""

from __future__ import annotations

import re

from docs.generate.command_line import main, markdown
from spec_decode_exporter.cli.main import COMMANDS

from .documents import DOCS

ROWS = re.findall(r"^\| `(.+?)` \| (.*) \|$", markdown(), flags=re.MULTILINE)


def test_the_committed_file_is_current():
    page = DOCS / "reference/command-line.md"
    assert page.read_text(encoding="utf-8") == markdown(), "run `make docs`"


def test_the_page_is_written_to_the_given_path(tmp_path):
    main([str(tmp_path / "a.md")])
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == markdown()


def test_every_command_has_its_section():
    headings = re.findall(r"^## (.*)$", markdown(), flags=re.MULTILINE)
    assert headings == [*COMMANDS]


def test_every_argument_exists_and_has_a_meaning():
    assert len(ROWS) > 70
    assert [name for name, meaning in ROWS if not meaning] == []


def test_the_page_does_not_depend_on_the_width_of_the_terminal(monkeypatch):
    before = markdown()
    monkeypatch.setenv("COLUMNS", "40")
    assert markdown() == before
