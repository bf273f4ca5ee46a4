"""The public site: its menu, its links, and Markdown that MkDocs' parser reads as GitHub does."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from docs.generate.pages import DOCS
from docs.generate.site import (
    for_python_markdown,
    menu,
    on_config,
    on_files,
    on_page_markdown,
    with_site_links,
)


def test_the_menu_is_that_of_the_index_with_every_page():
    config = SimpleNamespace(nav=None)
    on_config(config)
    assert [next(iter(section)) for section in config.nav] == [
        "Home", "Guide", "Reference", "Explanation", "Runbooks", "Maintainers",
    ]  # fmt: skip
    assert set(paths(config.nav)) == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def paths(entry):
    """Yield the paths of a menu."""
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from paths(inner)


def test_a_section_without_pages_is_left_out():
    assert menu("## Words\n\nNo page.\n") == [{"Home": "README.md"}]


def test_a_page_has_the_path_of_its_document_to_which_alerts_link():
    runbook = SimpleNamespace(name="A", src_uri="runbooks/A.md", dest_uri="runbooks/A/index.html")
    index = SimpleNamespace(name="index", src_uri="README.md", dest_uri="index.html")
    on_files(SimpleNamespace(documentation_pages=lambda: [runbook, index]), SimpleNamespace())
    assert (runbook.dest_uri, index.dest_uri) == ("runbooks/A.md/index.html", "index.html")


def test_the_index_lists_the_runbooks():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="README.md"))
    text = on_page_markdown("", page=page, config=SimpleNamespace(repo_url=None), files=None)
    assert "(runbooks/SpecDecodeSuddenDrop.md)" in text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](plan.md#return)", "[a](plan.md#return)"),
        (
            "[a](https://docs.vllm.ai) ![a](../images/page.png)",
            "[a](https://docs.vllm.ai) ![a](../images/page.png)",
        ),
        ("[a\nb](../../SECURITY.md) and [c](../runbooks/)", "a\nb and c"),
        ("[a [b]](../../grafana/README.md#load-them)", "a [b]"),
        ("```\n[a](../../SECURITY.md)\n```\n", "```\n[a](../../SECURITY.md)\n```\n"),
    ],
)
def test_links_to_files_outside_the_site_are_text(text, found, caplog):
    assert with_site_links(text, "guide/a.md", None) == found
    assert caplog.records == []


def test_links_to_files_outside_the_site_lead_to_the_repository():
    found = with_site_links("[a](../../SECURITY.md#b)", "guide/a.md", "https://example.org/x")
    assert found == "[a](https://example.org/x/blob/main/SECURITY.md#b)"


def test_a_link_to_no_file_is_a_warning_which_ends_a_strict_build(caplog):
    with caplog.at_level(logging.WARNING, "mkdocs.hooks.site"):
        with_site_links("[a](../../NOTHING.md)", "guide/a.md", None)
    assert "guide/a.md links to ../../NOTHING.md, which does not exist" in caplog.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- a\n  b\n- c\n", "- a\n    b\n- c\n"),
        ("- a\n  - b\n    c\n", "- a\n    - b\n        c\n"),
        ("- a\nb\n", "- a\n    b\n"),
        ("1. a\n\n   ```\n     b\n   ```\n2. c\n", "1. a\n\n    ```\n      b\n    ```\n\n2. c\n"),
        ("1. a\n2. b\n", "1. a\n2. b\n"),
        ("a:\n- b\n", "a:\n\n- b\n"),
        ("a\n| b |\n|---|\n| `c\\|d` |\n", "a\n\n| b |\n|---|\n| `c|d` |\n"),
        ("`a\\|b`\n", "`a\\|b`\n"),
        ("```\n- a\n  b\n```\n", "```\n- a\n  b\n```\n"),
    ],
)
def test_lists_and_tables_are_as_python_markdown_wants_them(text, found):
    assert for_python_markdown(text) == found
