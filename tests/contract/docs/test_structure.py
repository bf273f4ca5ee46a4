"""The documents as a whole: links that lead somewhere, and an index that names every page."""

from __future__ import annotations

import re

import pytest

from tests.every import every

from .documents import DOCS, without_code, wrong_links

CHECKOUT = DOCS.parent
PARTS = ("guide", "reference", "explanation", "maintainers")
PAGES = {path.relative_to(CHECKOUT).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
OTHERS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "grafana/README.md")
INDEX = (DOCS / "README.md").read_text(encoding="utf-8")


@every([*PAGES, *OTHERS])
def test_every_link_and_anchor_leads_somewhere(name):
    path = CHECKOUT / name
    assert list(wrong_links(without_code(path.read_text(encoding="utf-8")), path)) == []


@every(PARTS)
def test_the_index_names_every_page_of_a_part_with_a_sentence(part):
    (section,) = re.findall(rf"^## {part.title()}\n(.*?)(?=^## |\Z)", INDEX, flags=re.MULTILINE | re.DOTALL)
    rows = dict(re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \| (.+) \|$", section, flags=re.MULTILINE))
    assert {*rows} - {"maintainers/decisions/README.md"} == {
        path.relative_to(DOCS).as_posix() for path in (DOCS / part).glob("*.md")
    }
    assert all(sentence.endswith(".") for sentence in rows.values())


@pytest.mark.parametrize("wrong", ["[a](nowhere.md)", "[a](guide/plan.md#nowhere)", "[a](#nowhere)"])
def test_a_wrong_link_is_found(wrong):
    assert list(wrong_links(without_code(f"`[a](code.md)` {wrong}"), DOCS / "README.md"))
