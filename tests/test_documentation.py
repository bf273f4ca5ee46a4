"""docs/semantics.md names everything that the analysis can say, with the figures that it uses; pictures are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_decode_exporter.analysis.drops.drop import DropKind
from spec_decode_exporter.analysis.finding import FindingName
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.typical_costs import _DRAFTERS
from spec_decode_exporter.analysis.verdict import Verdict

CHECKOUT = Path(__file__).parents[1]
DOCS = CHECKOUT / "docs"
SEMANTICS = (DOCS / "semantics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("word", [*State, *Verdict, *Action, *FindingName, *DropKind])
def test_every_term_is_explained(word):
    assert f"`{word}`" in SEMANTICS


@pytest.mark.parametrize(("method", "cost"), _DRAFTERS.items())
def test_every_typical_cost_is_in_the_table_with_its_range(method, cost):
    (row,) = [line for line in SEMANTICS.splitlines() if line.startswith("|") and f"`{method}`" in line]
    _, _, per_token, fixed, *_ = (cell.strip() for cell in row.split("|"))
    for cell, expected in ((per_token, cost.token), (fixed, cost.step)):
        low, guess, high = map(float, cell.split(" · "))
        assert (low, guess, high) == expected


def test_every_picture_is_shown_somewhere():
    documents = [CHECKOUT / "README.md", *DOCS.rglob("*.md")]
    text = "".join(path.read_text(encoding="utf-8") for path in documents)
    pictures = [path.name for path in (DOCS / "images").iterdir()]
    assert pictures
    assert [name for name in pictures if f"images/{name})" not in text] == []
