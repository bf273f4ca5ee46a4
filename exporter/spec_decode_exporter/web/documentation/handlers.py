"""Handlers of ``/docs/``: documents at their paths in the repository's docs folder, and files to download."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path, PurePosixPath
from string import Template
from typing import Final

from aiohttp import web

from spec_decode_exporter.core.tasks import DOCUMENTATION
from spec_decode_exporter.web.documentation.documents import FILES, INDEX, served
from spec_decode_exporter.web.documentation.rendering import Document, render
from spec_decode_exporter.web.page.handlers import html_response
from spec_decode_exporter.web.state import STATE

ROOT: Final = "/docs/"
ROUTE: Final = f"{ROOT}{{path:.*}}"
_TEMPLATE: Final = files("spec_decode_exporter.web.documentation").joinpath("documentation.html")
_TYPES: Final = {".yml": "text/yaml", ".json": "application/json", ".py": "text/x-python"}

_known = cache(served)

_FILES_TEXT: Final = """# Files to download

Alerts and rules for Prometheus, routes for Alertmanager, dashboards for Grafana, the middleware for vLLM.
How to load them: [alerts and recording rules](../guide/alerts.md), [dashboards](../guide/dashboards.md),
[middleware](../guide/requests-inside.md).

"""


async def to_index(_: web.Request) -> web.Response:
    """Redirect a path without its last slash to the index; relative, as a proxy may add a prefix."""
    raise web.HTTPMovedPermanently(ROOT.removeprefix("/"))


async def documentation(request: web.Request) -> web.StreamResponse:
    """Serve a document, a list of files or a file, if the path is one of those known."""
    path = request.match_info["path"]
    if path not in ("", FILES) and path not in _known():
        raise web.HTTPNotFound
    if path.startswith(FILES) and path != FILES:
        return _file(_known()[path])
    document = await DOCUMENTATION.run(_rendered, path)
    text = Template(_TEMPLATE.read_text("utf-8")).substitute(
        title=escape(document.title),
        root="../" * (1 + path.count("/")),
        version=escape(request.app[STATE].version),
        content=document.html,
    )
    return await html_response(request, text)


def _file(path: Path) -> web.Response:
    headers = {
        "Content-Type": f"{_TYPES[path.suffix]}; charset=utf-8",
        "Content-Disposition": f'attachment; filename="{path.name}"',
    }
    return web.Response(body=_content(path), headers=headers)


@cache
def _content(path: Path) -> bytes:
    """Read a file once: readers that do not read share its memory."""
    return path.read_bytes()


@cache
def _rendered(path: str) -> Document:
    """Render a document once: all of them take less than 2 MB."""
    if path == FILES:
        return render(_list_of_files(), FILES, _known())
    text = _known()[path or INDEX].read_text("utf-8")
    return render(text if path else f"{text}{_list_of_runbooks()}", path or INDEX, _known())


def _list_of_runbooks() -> str:
    runbooks = [path for path in _known() if path.startswith("runbooks/")]
    return "\n## All runbooks\n\n" + "".join(f"- [{PurePosixPath(path).stem}]({path})\n" for path in runbooks)


def _list_of_files() -> str:
    """Return the list of the files to download, in Markdown."""
    names = [path.removeprefix(FILES) for path in _known() if path.startswith(FILES)]
    return _FILES_TEXT + "".join(f"- [{name}]({name})\n" for name in names)
