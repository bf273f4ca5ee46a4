"""Render the documentation that the exporter serves under ``/docs/``: plain HTML, without scripts.

``python -m docs.generate.pages`` writes it into the package, so that the wheel, an editable installation and
the image contain it without a renderer.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCS: Final = Path(__file__).parents[1]
TARGET: Final = DOCS.parent / "exporter/spec_decode_exporter/web/documentation/pages"
_PARTS: Final = ("guide", "reference", "explanation", "runbooks")
"""Folders of the documents for users. Those for maintainers stay in the repository."""

_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_SCHEME: Final = re.compile(r"[a-z]+:", re.ASCII)
_NOT_IN_SLUG: Final = re.compile(r"[^\w\- ]")


def served() -> tuple[str, ...]:
    """Return the paths of the served documents below ``docs/``, without the index."""
    return tuple(
        path.relative_to(DOCS).as_posix() for part in _PARTS for path in sorted((DOCS / part).glob("*.md"))
    )


def pages() -> dict[str, str]:
    """Return the HTML of each served document, and of the index, by its path below ``/docs/``."""
    known = frozenset(served())
    rendered = {path: render((DOCS / path).read_text(encoding="utf-8"), path, known) for path in served()}
    return {"index.md": render(index_text(), "index.md", known), **rendered}


def render(text: str, path: str, known: frozenset[str]) -> str:
    """Return a document as HTML.

    Links within the served documents stay, with GitHub's anchors; links to other files become text. HTML in
    the document is shown, not used.

    Args:
        text: The document, in Markdown.
        path: Its path below ``docs/``.
        known: Paths of all served documents.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    slugs: dict[str, int] = {}
    for token, following in zip(tokens, [*tokens[1:], Token("end", "", 0)], strict=True):
        if token.type == "heading_open":
            token.attrSet("id", _slug(following, slugs))
        if token.children:
            token.children = list(_with_known_links(token.children, path, known))
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


def _slug(heading: Token, taken: dict[str, int]) -> str:
    """Return GitHub's anchor of a heading: that of a repeated one has a number."""
    words = "".join(child.content for child in heading.children or ())
    slug = _NOT_IN_SLUG.sub("", words.lower()).replace(" ", "-")
    taken[slug] = taken.get(slug, -1) + 1
    return f"{slug}-{taken[slug]}" if taken[slug] else slug


def _with_known_links(tokens: Sequence[Token], path: str, known: frozenset[str]) -> Iterator[Token]:
    """Yield the tokens of a text without images, and without links to files that are not served."""
    omits = False
    for token in tokens:
        if token.type == "link_open":
            omits = not _is_served(str(token.attrGet("href")), path, known)
        if token.type == "image" or (omits and token.type in {"link_open", "link_close"}):
            continue
        yield token


def _is_served(href: str, path: str, known: frozenset[str]) -> bool:
    file = href.partition("#")[0]
    if not file or _SCHEME.match(href):
        return True
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) in known


def index_text() -> str:
    """Return docs/README.md, followed by a list of the runbooks."""
    runbooks = "".join(
        f"- [{Path(path).stem}]({path})\n" for path in served() if path.startswith("runbooks/")
    )
    return f"{(DOCS / 'README.md').read_text(encoding='utf-8')}\n## All runbooks\n\n{runbooks}"


def main() -> None:
    """Write all pages, and remove those of documents that are gone."""
    shutil.rmtree(TARGET, ignore_errors=True)
    for path, html in pages().items():
        file = (TARGET / path).with_suffix(".html")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(html, encoding="utf-8")


if __name__ == "__main__":
    main()
