from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.reports.escape import cells, clipped, escaped, wrapped

printable = st.text().map(escaped)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2J", r"a\x1b[2J"),
        ("a\nb", r"a\nb"),
        ("\x9b", r"\x9b"),
        ("\u202e", r"\u202e"),
        ("é 名", "é 名"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert escaped(text) == shown


def test_wide_characters_take_two_columns_and_marks_none():
    assert cells("a名e\u0301") == 4


def test_a_name_is_clipped_in_the_middle():
    assert clipped("meta-llama/Llama-3.1-8B", 12, "…") == "meta-l….1-8B"
    assert clipped("名名名名", 5, "…") == "名…名"


@given(text=printable, width=st.integers(1, 60), ellipsis=st.sampled_from(["…", "..."]))
def test_a_clipped_name_fits(text, width, ellipsis):
    found = clipped(text, width, ellipsis)
    assert cells(found) <= width
    assert cells(text) > width or found == text


@given(text=printable, width=st.integers(2, 60))
def test_wrapped_lines_fit_and_lose_no_word(text, width):
    lines = wrapped(text, width)
    assert lines
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
