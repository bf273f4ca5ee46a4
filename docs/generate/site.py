"""Hooks of the public site: its menu, its addresses, and GitHub's Markdown for MkDocs' parser.

MkDocs calls the functions ``on_…`` by their names (docs/site/mkdocs.yml).
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from docs.generate.pages import DOCS, index_text

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_LOG: Final = logging.getLogger("mkdocs.hooks.site")
"""A warning here ends a strict build."""
_INDENT: Final = 4
"""Spaces that Python-Markdown wants for what belongs to an item of a list."""

_SECTION: Final = re.compile(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \|", re.MULTILINE)
_MARKER: Final = re.compile(r" *(?:[-*+]|\d+[.)]) +")
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_SCHEME: Final = re.compile(r"[a-z]+:", re.ASCII)


def on_config(config: MkDocsConfig) -> None:
    """Make the menu from docs/README.md."""
    config.nav = menu((DOCS / "README.md").read_text(encoding="utf-8"))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Give each page the path of its document, to which alerts link: ``runbooks/SpecDecodeSuddenDrop.md``."""
    del config
    for file in files.documentation_pages():
        if file.name != "index":
            file.dest_uri = f"{file.src_uri}/index.html"


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a document as MkDocs' parser reads it."""
    del files
    path = page.file.src_uri
    text = index_text() if path == "README.md" else markdown
    return for_python_markdown(with_site_links(text, path, config.repo_url))


def menu(index: str) -> list[Any]:
    """Return the menu: a section for each part of the index, with its pages in their order."""
    sections: list[Any] = [{"Home": "README.md"}]
    for title, body in _SECTION.findall(index):
        if rows := _ROW.findall(body):
            sections.append({title: [_entry(name, path) for name, path in rows]})
        elif (DOCS / title.lower()).is_dir():
            sections.append({title: _pages(title.lower())})
    return sections


def _entry(name: str, path: str) -> dict[str, Any]:
    """Return a page of the menu; an index of a folder has the pages of the folder."""
    folder, _, file = path.rpartition("/")
    return {name: [path, *_pages(folder)]} if file == "README.md" else {name: path}


def _pages(folder: str) -> list[str]:
    paths = sorted((DOCS / folder).glob("*.md"))
    return [path.relative_to(DOCS).as_posix() for path in paths if path.name != "README.md"]


def with_site_links(text: str, path: str, repository: str | None) -> str:
    """Return a document whose links to files outside docs/ lead to the repository, or are text without one.

    Args:
        text: The document.
        path: Its path below ``docs/``.
        repository: Address of the repository.
    """

    def replaced(link: re.Match[str]) -> str:
        target = link[2]
        goal = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), target))
        if _SCHEME.match(target) or (goal.startswith("docs/") and (DOCS.parent / goal).is_file()):
            return link[0]
        if not (DOCS.parent / goal).exists():
            _LOG.warning("%s links to %s, which does not exist", path, target)
        return f"[{link[1]}]({repository}/blob/main/{goal}{link[3] or ''})" if repository else link[1]

    parts = _split_by_code(text)
    return "".join(part if is_code else _LINK.sub(replaced, part) for part, is_code in parts)


def _split_by_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a document, and whether each is a block of code."""
    lines, begin = text.splitlines(keepends=True), 0
    for token in _tokens(text):
        if token.type in {"fence", "code_block"} and token.map:
            yield "".join(lines[begin : token.map[0]]), False
            yield "".join(lines[slice(*token.map)]), True
            begin = token.map[1]
    yield "".join(lines[begin:]), False


def for_python_markdown(text: str) -> str:
    """Return a document of CommonMark for Python-Markdown.

    Its lists want four spaces where CommonMark wants the width of the marker, its tables and lists want an
    empty line before them, and a pipe in code in a table has no backslash.
    """
    lines, tokens = text.splitlines(), _tokens(text)
    items = [range(*token.map) for token in tokens if token.type == "list_item_open" and token.map]
    tables = [range(*token.map) for token in tokens if token.type == "table_open" and token.map]
    lists = [token.map[0] for token in tokens if token.type.endswith("_list_open") and token.map]
    outermost = {first for first in lists if not any(first in item and first != item[0] for item in items)}
    loose = {item.stop for item in items if not all(lines[number].strip() for number in item)}
    apart = {table[0] for table in tables} | outermost | (loose & {item[0] for item in items})
    found = []
    for number, line in enumerate(lines):
        if number in apart and number and lines[number - 1].strip():
            found.append("")
        inside = [item for item in items if number in item]
        fresh = _indented(line, number, [(item[0], lines[item[0]]) for item in inside])
        if any(number in table for table in tables):
            fresh = re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), fresh)
        found.append(fresh)
    return "\n".join([*found, ""])


def _indented(line: str, number: int, items: list[tuple[int, str]]) -> str:
    """Return a line with the indent that its depth wants; ``items`` are the first lines around it."""
    if not items or not line.strip():
        return line
    first, text = items[-1]
    if number == first:
        return " " * _INDENT * (len(items) - 1) + line.lstrip()
    marker = _MARKER.match(text)
    width = len(marker[0]) if marker else 0
    return " " * _INDENT * len(items) + (line[width:] if not line[:width].strip() else line.lstrip())


def _tokens(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)
