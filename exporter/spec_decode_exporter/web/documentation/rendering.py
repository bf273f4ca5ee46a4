"""HTML of a Markdown document: without scripts, styles and images, with GitHub's anchors."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from spec_decode_exporter.web.documentation.documents import linked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from markdown_it.token import Token

_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_SCHEME: Final = re.compile(r"[a-z]+:", re.ASCII)
_NOT_IN_SLUG: Final = re.compile(r"[^\w\- ]")


class Document(NamedTuple):
    """Title of a document as text, and its content as HTML."""

    title: str
    html: str


def render(text: str, path: str, served: Collection[str]) -> Document:
    """Render a document. HTML in it is shown as text.

    Links to served files are kept; links to other files of the repository become text.

    Args:
        text: The document, in Markdown.
        path: Its path below ``/docs/``.
        served: Paths of all served files below ``/docs/``.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    titles = _add_anchors(tokens)
    for token in tokens:
        token.attrs.pop("style", None)  # the security policy allows no inline styles
        if token.children:
            token.children = list(_with_served_links(token.children, path, served))
    html: str = parser.renderer.render(tokens, parser.options, {})
    return Document(titles[0] if titles else path, html)


def _add_anchors(tokens: Sequence[Token]) -> list[str]:
    """Give each heading GitHub's anchor, a repeated one with a number; return the texts of the headings."""
    taken: dict[str, int] = {}
    titles = []
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(child.content for child in following.children or ())
            slug = _NOT_IN_SLUG.sub("", words.lower()).replace(" ", "-")
            taken[slug] = taken.get(slug, -1) + 1
            token.attrSet("id", f"{slug}-{taken[slug]}" if taken[slug] else slug)
            titles.append(words)
    return titles


def _with_served_links(tokens: Sequence[Token], path: str, served: Collection[str]) -> Iterator[Token]:
    """Yield the tokens of a text without images, and without links to files that are not served."""
    is_text = False
    for token in tokens:
        if token.type == "link_open":
            href = _served_href(str(token.attrGet("href")), path, served)
            is_text = href is None
            token.attrSet("href", href or "")
        if token.type == "image" or (is_text and token.type in {"link_open", "link_close"}):
            continue
        yield token


def _served_href(href: str, path: str, served: Collection[str]) -> str | None:
    """Return the target of a link as it is served; None if it is not."""
    file, mark, anchor = href.partition("#")
    if not file or _SCHEME.match(href):
        return href
    goal = linked(file, path)
    if goal not in served:
        return None
    return f"{posixpath.relpath(goal, posixpath.dirname(path) or '.')}{mark}{anchor}"
