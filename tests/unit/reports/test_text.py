"""The text of the reports is safe in a terminal and in Markdown, aligned, and fitted to a terminal's width."""

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from spec_decode_exporter.reports.text import (
    MIN_WIDTH,
    badge,
    bar,
    json_text,
    name,
    printable,
    table,
    text_style,
)

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@given(st.text())
def test_a_value_is_one_printable_line(text):
    assert str(printable(text)).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[a](http://b)",
        "``",
        "`a`b",
        "*x* | y",
        "@team",
        "a\n# title",
        "\x1b[2J\u202e",
    ],
)
def test_a_name_is_code_wherever_it_stands(text):
    for place in (f"- {name(text)}: x", str(table(("a", "b"), [(name(text), "x")]))):
        html = MARKDOWN.render(place)
        assert html.count("<code>") == 1
        assert not re.search("<script|<a |<em|<h1|\x1b", html)


def test_columns_of_a_table_are_aligned_and_numbers_stand_to_the_right():
    drawn = table(("name", "", "value"), [("a|b", "", "12 ms"), ("b", "", "-")])
    assert drawn.splitlines() == [
        "| name | value |",
        "| ---- | ----: |",
        "| a\\|b | 12 ms |",
        "| b    |     - |",
    ]


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(None, ""), (0.0, ""), (1e-9, "▏"), (0.5, "█" * 10), (1.0, "█" * 20), (7.0, "█" * 20)],
)
def test_a_bar_shows_every_share_above_zero(share, drawn):
    assert bar(share) == drawn


@pytest.mark.parametrize(
    ("stream", "environ", "is_colored"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_a_verdict_has_a_color_on_a_terminal_alone(stream, environ, is_colored):
    assert ("\x1b[" in badge("HARMFUL", "bad", text_style(stream, environ))) is is_colored


def test_a_narrow_terminal_counts_as_one_of_the_minimum_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    assert text_style(Terminal(), {}).width == MIN_WIDTH


def test_json_has_no_control_characters():
    assert json_text({"a": "\x7f\x1b\u202e"}).isascii()
    assert json.loads(json_text({"a": "\x7f"})) == {"a": "\x7f"}
