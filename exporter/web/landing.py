"""The page at ``/``: version, targets and links; it works without a script and behind a path prefix."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

from aiohttp import web

from exporter.web.state import STATE, AppState, TargetRow

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILES: Final = files("exporter.web") / "page"
_PAGE: Final = Template((_FILES / "index.html").read_text("utf-8"))
_ROW: Final = Template((_FILES / "target.html").read_text("utf-8"))
_STYLE: Final = (_FILES / "style.css").read_text("utf-8")

# The style class of a row's state and what it says.
_STATES: Final = {True: ("up", "up"), False: ("down", "down"), None: ("unknown", "not polled yet")}


async def landing(request: web.Request) -> web.Response:
    """Show who is watched and where the rest is."""
    return web.Response(text=render(request.app[STATE]), content_type="text/html", charset="utf-8")


async def style(_request: web.Request) -> web.Response:
    """Serve the style sheet: the page's security policy allows no style but this file."""
    return web.Response(text=_STYLE, content_type="text/css", charset="utf-8")


def render(state: AppState) -> str:
    """Return the page's HTML, with everything that is not ours escaped."""
    rows = state.targets()
    return _PAGE.substitute(
        version=escape(state.version),
        metrics=escape(f".{state.telemetry_path}"),
        summary=_summary(rows),
        rows="".join(map(_row, rows)),
    )


def _summary(rows: Sequence[TargetRow]) -> str:
    if not rows:
        return "No target is known. Name one with --target, or in the configuration."
    up = sum(row.up is True for row in rows)
    return f"{up} of {len(rows)} {'target is' if len(rows) == 1 else 'targets are'} up."


def _row(row: TargetRow) -> str:
    style_class, status = _STATES[row.up]
    return _ROW.substitute(
        style_class=style_class,
        status=status,
        error=escape(row.error),
        name=escape(row.name),
        address=escape(row.address),
        engines=row.engines,
        page=escape(row.page),
        interval=f"{row.interval:.3g} s",
    )
