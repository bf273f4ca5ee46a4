"""Documents: terms in docs/explanation/semantics.md, pictures, and file names in docs/maintainers/development.md."""

from __future__ import annotations

import re
import subprocess

import pytest

from spec_decode_exporter.analysis.typical_costs import _DRAFTERS
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.findings.findings import NAMES
from tests.paths import CHECKOUT

DOCS = CHECKOUT / "docs"
SEMANTICS = (DOCS / "explanation/semantics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("word", [*State, *Verdict, *Action, *NAMES, *DropKind])
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


def test_every_file_that_the_guide_for_developers_names_exists():
    """A path may leave out the folders above, such as that of the package."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [f"/{path}" for path in listed.stdout.splitlines() if (CHECKOUT / path).exists()]
    text = (DOCS / "maintainers/development.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+\.(?:py|md|txt|yml))`", text)
    assert len(named) > 10
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in paths)] == []
