"""Handlers of the page, of its content for the script, and of its files."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from spec_decode_exporter.metrics.negotiation import choose_gzip
from spec_decode_exporter.views.experiment_view import experiment_view, experiments_of
from spec_decode_exporter.views.fleet_view import event_view
from spec_decode_exporter.web.page.page_data import PageData, shown_engine
from spec_decode_exporter.web.page.page_query import PageQuery
from spec_decode_exporter.web.server.streaming import compressed, each
from spec_decode_exporter.web.state import STATE, AppState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spec_decode_exporter.core.isolation import Isolation
    from spec_decode_exporter.monitor.snapshot import Snapshot
    from spec_decode_exporter.views.experiment_view import ExperimentView
    from spec_decode_exporter.web.page.markup import Markup

_FOLDER: Final = files("spec_decode_exporter.web.page")
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_STYLES: Final = ("base", "summary", "fleet", "engine", "other", "documentation", "narrow")
"""Parts of the style sheet in order: the last, for small screens, overrides the others."""
STATIC: Final = ("style.css", "page.js", "icon.svg")


async def page(request: web.Request) -> web.Response:
    """Serve the whole page."""
    state = request.app[STATE]
    text = Template(_file("page.html")).substitute(
        version=escape(state.version),
        content=await _content(request),
    )
    return await html_response(request, text)


async def fragment(request: web.Request) -> web.Response:
    """Serve the current content of the page."""
    return await html_response(request, await _content(request))


async def static(request: web.Request) -> web.Response:
    """Serve a file of the page: its security policy allows no other styles and scripts."""
    name = request.path.rpartition("/")[2]
    return web.Response(text=_file(name), content_type=_TYPES[name.rpartition(".")[2]], charset="utf-8")


@cache
def _file(name: str) -> str:
    if name == "style.css":
        return "\n".join(_file(f"styles/{part}.css") for part in _STYLES)
    return (_FOLDER / name).read_text("utf-8")


async def _content(request: web.Request) -> Markup:
    from spec_decode_exporter.web.page.page_content import content  # a megabyte that scrapes do not need

    state = request.app[STATE]
    return await content(PageQuery.read(request.query), page_data(state, await state.snapshot()))


def page_data(state: AppState, snapshot: Snapshot) -> PageData:
    """Return the content of the page at this moment."""
    now = state.clock.monotonic()
    return PageData(
        state.clock.wall(),
        (shown_engine(*engine, now, state.errors) for engine in snapshot.engines),
        state.targets(),
        [event_view(event) for event in state.events.since().events],
        snapshot.requests,
        tuple(_experiments(state.errors, snapshot)),
        state.errors,
        next((exporter.problem for _, exporter in snapshot.exporter), ""),
    )


def _experiments(errors: Isolation, snapshot: Snapshot) -> Iterator[ExperimentView]:
    return errors.each(
        "page",
        experiments_of(snapshot.experiments),
        lambda experiment: {"experiment": experiment[0]},
        lambda experiment: experiment_view(*experiment),
    )


async def html_response(request: web.Request, text: str) -> web.Response:
    """Return a page, compressed if the client accepts that."""
    body = text.encode(errors="replace")
    headers = {"Content-Type": "text/html; charset=utf-8", "Vary": "Accept-Encoding"}
    if choose_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, []))):
        headers["Content-Encoding"] = "gzip"
        body = b"".join([piece async for piece in compressed(each([body]))])
    return web.Response(body=body, headers=headers)
