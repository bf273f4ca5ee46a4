"""The web application: a table of routes, and what every answer has in common."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import hdrs, web

from spec_decode_exporter.metrics.exposition import Exposition
from spec_decode_exporter.metrics.negotiation import choose_format, choose_gzip
from spec_decode_exporter.scrape.http.client import USER_AGENT_PREFIX
from spec_decode_exporter.web import admin
from spec_decode_exporter.web.api.event_stream import READERS, Readers
from spec_decode_exporter.web.api.problems import problems
from spec_decode_exporter.web.api.request_ingest import MOST_BODIES, MOST_BODIES_PER_CLIENT, counted
from spec_decode_exporter.web.api.request_ingest import PATH as RECEIVER
from spec_decode_exporter.web.api.routes import ENDPOINTS
from spec_decode_exporter.web.metrics_page import SharedPage, send
from spec_decode_exporter.web.page import handlers as page
from spec_decode_exporter.web.security.guard import Guard
from spec_decode_exporter.web.security.hosts import host_guard
from spec_decode_exporter.web.server.concurrency_limit import (
    MOST_SCRAPES,
    MOST_SCRAPES_PER_CLIENT,
    ConcurrencyLimit,
)
from spec_decode_exporter.web.server.fair_scheduler import LARGE_SHARE, FairScheduler
from spec_decode_exporter.web.server.headers import HEADERS
from spec_decode_exporter.web.state import STATE, AppState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp.typedefs import Handler

METRICS: Final = web.AppKey("metrics", SharedPage)

_GET: Final = (hdrs.METH_GET, hdrs.METH_HEAD)
_ROUTES: Final[tuple[tuple[str, Sequence[str], Handler], ...]] = (
    ("/", _GET, page.page),
    ("/fragment", _GET, page.fragment),
    *((f"/static/{name}", _GET, page.static) for name in page.STATIC),
    *((endpoint.path, endpoint.methods, endpoint.handler) for endpoint in ENDPOINTS),
    ("/config", _GET, admin.config),
    ("/-/healthy", _GET, admin.healthy),
    ("/-/ready", _GET, admin.ready),
    ("/-/reload", admin.RELOAD_METHODS, admin.reload),
)

_LARGE: Final = ("/", "/fragment", *(endpoint.path for endpoint in ENDPOINTS if not endpoint.streams))
"""Pages that grow with the number of engines. Their slots are not those of the metrics."""

_MOST_BODY: Final = 64 * 1024
"""Bytes of a body that nobody reads."""

_TELEMETRY_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*", re.ASCII)

_log = structlog.get_logger()


def create_app(state: AppState, guard: Guard | None = None) -> web.Application:
    """Return the application, with ``guard`` before every page.

    Raises:
        ValueError: The telemetry path cannot be served, or is another page's.
    """
    _check(state.telemetry_path)
    hosts = host_guard(state.allowed_hosts)
    guards = [guard.middleware] if guard else []
    app = web.Application(middlewares=[problems, _hide_errors, _reject_polls, hosts, *guards, _refuse_bodies])
    app[STATE] = state
    app[METRICS] = SharedPage(Exposition(state.collectors))
    app[READERS] = Readers()

    async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update({**HEADERS, **(guard.headers if guard else {})})

    app.on_response_prepare.append(add_headers)
    _add_routes(app, state.telemetry_path)
    return app


def _add_routes(app: web.Application, telemetry_path: str) -> None:
    large_turns = FairScheduler(share=LARGE_SHARE)
    scrapes = ConcurrencyLimit(MOST_SCRAPES, MOST_SCRAPES_PER_CLIENT)
    large = ConcurrencyLimit(turns=large_turns)
    bodies = ConcurrencyLimit(MOST_BODIES, MOST_BODIES_PER_CLIENT, large_turns)
    for path, methods, handler in (*_ROUTES, (telemetry_path, _GET, metrics)):
        if path == RECEIVER and methods != _GET:
            handler = counted(bodies.limit(handler))  # noqa: PLW2901
        elif path == telemetry_path:
            handler = scrapes.limit(handler, until_stalled=True)  # noqa: PLW2901
        elif path in _LARGE:
            handler = large.limit(handler)  # noqa: PLW2901
        for method in methods:
            app.router.add_route(method, path, handler)


async def metrics(request: web.Request) -> web.StreamResponse:
    """Serve the page in the format and the encoding that the client likes best."""
    format_ = choose_format(_header(request, hdrs.ACCEPT))
    gzip = choose_gzip(_header(request, hdrs.ACCEPT_ENCODING))
    snapshot = await request.app[STATE].prepare()
    rendering = await request.app[METRICS].rendering(snapshot, format_, gzip=gzip)
    headers = {"Content-Type": format_.content_type, "Vary": "Accept, Accept-Encoding"}
    return await send(request, rendering, {**headers, "Content-Encoding": "gzip"} if gzip else headers)


def _header(request: web.Request, name: str) -> str:
    """Return a header that may have been sent in several lines."""
    return ",".join(request.headers.getall(name, []))


def _check(path: str) -> None:
    remedy = "choose another --web.telemetry-path, such as /metrics"
    if not _TELEMETRY_PATH.fullmatch(path):
        raise ValueError(
            f"the telemetry path {path!r} must begin with / and hold only letters, digits and ._~/-: {remedy}"
        )
    if path in {route for route, _, _ in _ROUTES} or path.startswith(("/-/", "/api/", "/static/")):
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


@web.middleware
async def _reject_polls(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject the polls of an exporter, this one or another: a list of targets may name our pages.

    Each poll would have a costly page made. ``observe`` reads the requests, and nothing else.
    """
    if request.headers.get(hdrs.USER_AGENT, "").startswith(USER_AGENT_PREFIX) and request.path != RECEIVER:
        text = "This is a spec-decode-exporter. A target is the metrics page of a model server.\n"
        return web.Response(status=400, text=text)
    return await handler(request)


@web.middleware
async def _refuse_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request with a long body, or one whose length nobody knows, and hang up."""
    if request.method == hdrs.METH_POST and request.path == RECEIVER:
        return await handler(request)  # which reads it, and no more than so much
    if (request.content_length or 0) <= _MOST_BODY and hdrs.TRANSFER_ENCODING not in request.headers:
        return await handler(request)
    answer = web.Response(status=413, text=f"No request needs a body of more than {_MOST_BODY} bytes.\n")
    answer.force_close()
    return answer
