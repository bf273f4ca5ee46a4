"""Documentation under ``/docs/``: Markdown of the repository's docs folder, and files to download."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import web

from spec_decode_exporter.core.tasks import DOCUMENTATION
from spec_decode_exporter.web.page import html_response, render
from spec_decode_exporter.web.state import STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from markdown_it.token import Token
    from markupsafe import Markup

ROOT: Final = "/docs/"
ROUTE: Final = f"{ROOT}{{path:.*}}"
INDEX: Final = "README.md"
FILES: Final = "files/"  # folder of the files to download
PACKAGED: Final = Path(__file__).parent / "packaged"
"""Folder of a wheel that holds the files. An editable installation serves those of its checkout."""
_CHECKOUT: Final = Path(__file__).parents[3]
_MIDDLEWARE: Final = Path(__file__).parents[1] / "vllm_middleware" / "spec_decode_requests.py"
"""The file that vLLM loads: a module of this package, so a wheel needs no copy."""
SERVED: Final = (
    ("docs", "", ("README.md", "guide/*.md", "reference/*.md", "explanation/*.md", "runbooks/*.md")),
    ("config/prometheus", "files/", ("*.yml", "alerts/*.yml", "rules/*.yml")),
    ("config/alertmanager", "files/", ("*.yml",)),
    ("grafana/dashboards", "files/dashboards/", ("*.json",)),
)
"""Folder of the repository, its path below ``/docs/``, and its served files; hatch_build.py reads it."""
_TYPES: Final = {".yml": "text/yaml", ".json": "application/json", ".py": "text/x-python"}
_FILES_TEXT: Final = """# Files to download

Alerts and rules for Prometheus, routes for Alertmanager, dashboards for Grafana, the middleware for vLLM.
How to load them: [alerts and recording rules](../guide/alerts.md), [dashboards](../guide/dashboards.md),
[middleware](../guide/requests-inside.md).

"""
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_SCHEME: Final = re.compile(r"[a-z]+:", re.ASCII)
_NOT_IN_SLUG: Final = re.compile(r"[^\w\- ]")


class Document(NamedTuple):
    """Title of a document as text, and its content as HTML."""

    title: str
    content: Markup


async def to_index(_: web.Request) -> web.Response:
    """Redirect a path without its last slash to the index; relative, as a proxy may add a prefix."""
    raise web.HTTPMovedPermanently(ROOT.removeprefix("/"))


async def documentation(request: web.Request) -> web.StreamResponse:
    """Serve a document, a list of files or a file, if the path is one of those known."""
    path = request.match_info["path"]
    if path not in ("", FILES) and path not in served():
        raise web.HTTPNotFound
    if path.startswith(FILES) and path != FILES:
        file = served()[path]  # sent from the disk: a client that does not read takes no memory
        disposition = f'attachment; filename="{file.name}"'
        headers = {"Content-Type": _TYPES[file.suffix], "Content-Disposition": disposition}
        return web.FileResponse(file, headers=headers)
    document = await DOCUMENTATION.run(_rendered, path)
    return await _page(request, "document.html", 1 + path.count("/"), **document._asdict())


async def not_found(request: web.Request) -> web.Response:
    """Return the page of an address that has none, with links to those that a reader looks for."""
    response = await _page(request, "not_found.html", request.path.count("/") - 1)
    response.set_status(404)
    return response


async def _page(request: web.Request, template: str, depth: int, **content: object) -> web.Response:
    """Return a page ``depth`` folders below "/"; links are relative, as a proxy may add a prefix."""
    root, version = "../" * depth or "./", request.app[STATE].version
    return await html_response(request, await render(template, **content, root=root, version=version))


@cache
def served() -> dict[str, Path]:
    """Return each served file, by its path below ``/docs/``."""
    root = PACKAGED if PACKAGED.is_dir() else _CHECKOUT
    files = {
        f"{target}{path.relative_to(root / folder).as_posix()}": path
        for folder, target, patterns in SERVED
        for pattern in patterns
        for path in sorted((root / folder).glob(pattern))
    }
    return {**files, f"{FILES}{_MIDDLEWARE.name}": _MIDDLEWARE}


@cache
def _rendered(path: str) -> Document:
    """Render a document once: all of them take less than 2 MB."""
    if path == FILES:
        names = [path.removeprefix(FILES) for path in served() if path.startswith(FILES)]
        return rendered(_FILES_TEXT + "".join(f"- [{name}]({name})\n" for name in names), FILES, served())
    text = served()[path or INDEX].read_text("utf-8")
    if not path:
        runbooks = [each for each in served() if each.startswith("runbooks/")]
        links = (f"- [{PurePosixPath(each).stem}]({each})\n" for each in runbooks)
        text = "".join([text, "\n## All runbooks\n\n", *links])
    return rendered(text, path or INDEX, served())


def rendered(text: str, path: str, known: Collection[str]) -> Document:
    """Render a document. HTML in it is shown as text.

    Links to served files are kept; links to other files of the repository become text.

    Args:
        text: The document, in Markdown.
        path: Its path below ``/docs/``.
        known: Paths of all served files below ``/docs/``.
    """
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    titles = _add_anchors(tokens)
    for token in tokens:
        token.attrs.pop("style", None)  # the security policy allows no inline styles
        if token.children:
            token.children = list(_with_served_links(token.children, path, known))
    html = Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704  it escapes what it renders
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


def _with_served_links(tokens: Sequence[Token], path: str, known: Collection[str]) -> Iterator[Token]:
    """Yield the tokens of a text without images, and without links to files that are not served."""
    is_text = False
    for token in tokens:
        if token.type == "link_open":
            href = _served_href(str(token.attrGet("href")), path, known)
            is_text = href is None
            token.attrSet("href", href or "")
        if token.type != "image" and not (is_text and token.type in {"link_open", "link_close"}):
            yield token


def _served_href(href: str, path: str, known: Collection[str]) -> str | None:
    """Return the target of a document's relative link as it is served; None if it is not."""
    file, mark, anchor = href.partition("#")
    if not file or _SCHEME.match(href):
        return href
    goal = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), file))
    for folder, target, _ in SERVED:
        if goal.startswith(f"{folder}/"):
            goal = f"{target}{goal.removeprefix(f'{folder}/')}"
            break
    if goal not in known:
        return None
    return f"{posixpath.relpath(goal, posixpath.dirname(path) or '.')}{mark}{anchor}"
