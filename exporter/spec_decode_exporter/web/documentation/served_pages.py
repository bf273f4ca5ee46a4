"""Handler of the documentation under ``/docs/``. Paths are those of the repository, so links are the same."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template
from typing import TYPE_CHECKING, Final

from aiohttp import web

from spec_decode_exporter.web.page.handlers import html_response
from spec_decode_exporter.web.state import STATE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = "/docs/"
_FOLDER: Final = files("spec_decode_exporter.web.documentation")
_HEADING: Final = re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")


def _paths(folder: Traversable, prefix: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _paths(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".html"):
            yield f"{prefix}{entry.name.removesuffix('.html')}"


DOCUMENTS: Final = {
    ROOT if path == "index" else f"{ROOT}{path}.md": path
    for path in sorted(_paths(_FOLDER.joinpath("pages")))
}
"""Name of each document in the package, by the path at which it is served."""


async def to_index(_: web.Request) -> web.Response:
    """Lead a path without its last slash to the index; relative, as a proxy may add a prefix."""
    raise web.HTTPMovedPermanently(ROOT.removeprefix("/"))


async def documentation(request: web.Request) -> web.Response:
    """Serve a document."""
    return await html_response(request, _page(request.path, request.app[STATE].version))


@cache
def _page(path: str, version: str) -> str:
    name = DOCUMENTS[path]
    content = _FOLDER.joinpath("pages", f"{name}.html").read_text("utf-8")
    heading = _HEADING.search(content)
    return Template(_FOLDER.joinpath("documentation.html").read_text("utf-8")).substitute(
        title=_TAG.sub("", heading[1]) if heading else name,
        root="../" * path.removeprefix("/").count("/"),
        version=escape(version),
        content=content,
    )
