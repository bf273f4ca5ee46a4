"""The web application: its route table, its middlewares and its concurrency limits."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import hdrs, web

from spec_decode_exporter.scrape.client import USER_AGENT_PREFIX
from spec_decode_exporter.web import admin
from spec_decode_exporter.web.api.problems import problems
from spec_decode_exporter.web.api.request_ingest import MAX_BODIES, MAX_BODIES_PER_CLIENT, count_rejected
from spec_decode_exporter.web.api.request_ingest import PATH as INGEST_PATH
from spec_decode_exporter.web.api.routes import ENDPOINTS
from spec_decode_exporter.web.documentation.handlers import ROOT, ROUTE, documentation, to_index
from spec_decode_exporter.web.metrics_page import METRICS, SharedPage, metrics
from spec_decode_exporter.web.page import handlers as page
from spec_decode_exporter.web.security.guard import Guard
from spec_decode_exporter.web.security.hosts import host_guard
from spec_decode_exporter.web.server.concurrency_limit import (
    MAX_SCRAPES,
    MAX_SCRAPES_PER_CLIENT,
    ConcurrencyLimit,
)
from spec_decode_exporter.web.server.fair_scheduler import LARGE_SHARE, FairScheduler
from spec_decode_exporter.web.server.plain_response import DEFAULT_HEADERS, INTERNAL_ERROR, error_response
from spec_decode_exporter.web.state import STATE, AppState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp.typedefs import Handler

_GET: Final = (hdrs.METH_GET, hdrs.METH_HEAD)
_ROUTES: Final[tuple[tuple[str, Sequence[str], Handler], ...]] = (
    ("/", _GET, page.page),
    ("/fragment", _GET, page.fragment),
    *((f"/static/{name}", _GET, page.static) for name in page.STATIC),
    *((endpoint.path, endpoint.methods, endpoint.handler) for endpoint in ENDPOINTS),
    (ROUTE, _GET, documentation),
    (ROOT.removesuffix("/"), _GET, to_index),
    ("/config", _GET, admin.config),
    ("/-/healthy", _GET, admin.healthy),
    ("/-/ready", _GET, admin.ready),
    ("/-/reload", admin.RELOAD_METHODS, admin.reload),
)

METRICS_PATH: Final = "/metrics"
_LARGE: Final = ("/", "/fragment", *(endpoint.path for endpoint in ENDPOINTS))
"""Paths whose responses grow with the number of engines. Their limit is separate from that of the metrics."""

_MAX_UNREAD_BODY: Final = 64 * 1024
"""Bytes of a request body that no handler reads."""

_log = structlog.get_logger()


def create_app(state: AppState, guard: Guard | None = None) -> web.Application:
    """Return the application, with ``guard`` before every handler."""
    hosts = host_guard(state.allowed_hosts)
    guards = [guard.middleware] if guard else []
    app = web.Application(middlewares=[problems, _hide_errors, _reject_polls, hosts, *guards, _reject_bodies])
    app[STATE] = state
    app[METRICS] = SharedPage(state.metrics)

    async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(DEFAULT_HEADERS)

    app.on_response_prepare.append(add_headers)
    _add_routes(app)
    return app


def _add_routes(app: web.Application) -> None:
    large_scheduler = FairScheduler(share=LARGE_SHARE)
    scrapes = ConcurrencyLimit(MAX_SCRAPES, MAX_SCRAPES_PER_CLIENT, FairScheduler())
    large = ConcurrencyLimit(scheduler=large_scheduler)
    bodies = ConcurrencyLimit(MAX_BODIES, MAX_BODIES_PER_CLIENT, large_scheduler)
    for path, methods, handler in (*_ROUTES, (METRICS_PATH, _GET, metrics)):
        if path == INGEST_PATH and methods != _GET:
            handler = count_rejected(bodies.limit(handler))  # noqa: PLW2901
        elif path == METRICS_PATH:
            handler = scrapes.limit(handler, until_stalled=True)  # noqa: PLW2901
        elif path in _LARGE:
            handler = large.limit(handler)  # noqa: PLW2901
        for method in methods:
            app.router.add_route(method, path, handler)


@web.middleware
async def _hide_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Log an unexpected error, and keep its text out of the response: it may contain confidential data."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception:  # noqa: BLE001  it is logged with its traceback
        _log.exception("request_failed", method=request.method, path=request.path)
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR)


@web.middleware
async def _reject_polls(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject polls of any exporter: a list of targets may name this exporter by mistake.

    Each poll would render a costly page. Commands that read an exporter have another User-Agent.
    """
    if request.headers.get(hdrs.USER_AGENT, "").startswith(USER_AGENT_PREFIX):
        text = "This is a spec-decode-exporter. A target is the metrics page of a model server."
        return error_response(HTTPStatus.BAD_REQUEST, text)
    return await handler(request)


@web.middleware
async def _reject_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject a body that is too long or of unknown length, and close the connection."""
    if request.method == hdrs.METH_POST and request.path == INGEST_PATH:
        return await handler(request)  # it reads the body, up to a limit of its own
    if (request.content_length or 0) <= _MAX_UNREAD_BODY and hdrs.TRANSFER_ENCODING not in request.headers:
        return await handler(request)
    text = f"The request body must have a Content-Length of at most {_MAX_UNREAD_BODY} bytes."
    return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, close=True)
