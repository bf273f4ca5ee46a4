"""The web application: a table of routes, and what every answer has in common."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import hdrs, web

from exporter.web import api, landing, lifecycle
from exporter.web.exposition import Exposition, compress
from exporter.web.negotiation import choose_format, choose_gzip
from exporter.web.state import STATE, AppState

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

EXPOSITION: Final = web.AppKey("exposition", Exposition)

_GET: Final = ("GET", "HEAD")
_ROUTES: Final = {
    "/": (_GET, landing.landing),
    "/static/style.css": (_GET, landing.style),
    "/api/v1/snapshot": (_GET, api.snapshot),
    "/config": (_GET, lifecycle.config),
    "/-/healthy": (_GET, lifecycle.healthy),
    "/-/ready": (_GET, lifecycle.ready),
    "/-/reload": (lifecycle.RELOAD_METHODS, lifecycle.reload),
}

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Server": "spec-decode-exporter",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_TELEMETRY_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*", re.ASCII)

_log = structlog.get_logger()


def create_app(state: AppState) -> web.Application:
    """Return the application. ValueError if the telemetry path cannot be served or is another page's."""
    _check(state.telemetry_path)
    app = web.Application(middlewares=[_hide_errors])
    app[STATE] = state
    app[EXPOSITION] = Exposition(state.collectors)
    app.on_response_prepare.append(_add_headers)
    for path, (methods, handler) in {**_ROUTES, state.telemetry_path: (_GET, metrics)}.items():
        for method in methods:
            app.router.add_route(method, path, handler)
    return app


async def metrics(request: web.Request) -> web.Response:
    """Serve the page in the format and the encoding that the client likes best."""
    format_ = choose_format(_header(request, hdrs.ACCEPT))
    await request.app[STATE].prepare()
    page = request.app[EXPOSITION].render(format_)
    headers = {"Content-Type": format_.content_type, "Vary": "Accept, Accept-Encoding"}
    if choose_gzip(_header(request, hdrs.ACCEPT_ENCODING)):
        return web.Response(body=await compress(page), headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=b"".join([piece async for piece in page]), headers=headers)


def _header(request: web.Request, name: str) -> str:
    """Return a header that may have been sent in several lines."""
    return ",".join(request.headers.getall(name, []))


def _check(path: str) -> None:
    remedy = "choose another --web.telemetry-path, such as /metrics"
    if not _TELEMETRY_PATH.fullmatch(path):
        raise ValueError(
            f"the telemetry path {path!r} must begin with / and hold only letters, digits and ._~/-: {remedy}"
        )
    if path in _ROUTES or path.startswith(("/-/", "/api/", "/static/")):
        raise ValueError(f"the telemetry path {path!r} is that of another page of the exporter: {remedy}")


@web.middleware
async def _hide_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep an unexpected error's text in the log: it may say what is nobody's business."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception:  # noqa: BLE001  it is logged with its traceback
        _log.exception("request_failed", method=request.method, path=request.path)
        return web.Response(status=500, text="The exporter failed to answer; its log says why.\n")


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
