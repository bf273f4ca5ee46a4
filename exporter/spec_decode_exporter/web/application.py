"""The web application: routes, middlewares, limits of concurrent requests, and management endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.web import page
from spec_decode_exporter.web.api import ENDPOINTS, INGEST_PATH, MAX_BODY_BYTES, count_rejected
from spec_decode_exporter.web.documentation import ROOT, ROUTE, documentation, not_found, to_index
from spec_decode_exporter.web.endpoint import ROOT as API
from spec_decode_exporter.web.endpoint import problems
from spec_decode_exporter.web.hosts import host_guard
from spec_decode_exporter.web.limits import DEFAULT_HEADERS, INTERNAL_ERROR, Limit, error_response
from spec_decode_exporter.web.metrics_page import METRICS, SharedPage, metrics
from spec_decode_exporter.web.security import Guard
from spec_decode_exporter.web.state import STATE, ExporterState

_log = structlog.get_logger()


async def probe(request: web.Request) -> web.Response:
    """Return that the exporter is healthy, or ready."""
    return web.Response(text=f"spec-decode-exporter is {request.path.rpartition('/')[2]}.\n")


async def config(request: web.Request) -> web.Response:
    """Return the active configuration without its secrets."""
    return web.Response(text=request.app[STATE].config_text)


async def reload(request: web.Request) -> web.Response:
    """Reload the configuration; return 500 if it is invalid and keep the active one."""
    reload_configuration = request.app[STATE].reload
    if reload_configuration is None:
        text = "Lifecycle API is not enabled. Enable it with --web.enable-lifecycle."
        return error_response(HTTPStatus.FORBIDDEN, text)
    try:
        await reload_configuration()
    except ConfigError as error:
        text = f"The configuration was not reloaded; the previous one stays active:\n{error}"
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, text)
    return web.Response(text="The configuration was reloaded.\n")


def create_app(state: ExporterState, guard: Guard | None = None) -> web.Application:
    """Return the application, with ``guard`` before every handler."""
    guards = [host_guard(state.allowed_hosts), *([guard.middleware] if guard else [])]
    middlewares = [problems, _hide_errors, *guards, _reject_bodies]
    app = web.Application(middlewares=middlewares, client_max_size=MAX_BODY_BYTES)
    app[STATE] = state
    app[METRICS] = SharedPage(state.metrics)

    async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(DEFAULT_HEADERS)

    app.on_response_prepare.append(add_headers)
    app.router.add_routes(_routes())
    return app


def _routes() -> Iterator[web.AbstractRouteDef]:
    """Yield every route. Large responses and bodies have limits; /metrics has none, as it is shared."""
    large, bodies = Limit(), Limit()
    pages: dict[str, Handler] = {
        "/": large.limit(page.page),
        "/fragment": large.limit(page.fragment),
        ROUTE: documentation,
        ROOT.removesuffix("/"): to_index,
        "/metrics": metrics,
        "/config": config,
        "/-/healthy": probe,
        # It listens only after it has loaded its configuration. A vLLM that is down leaves the pod ready.
        "/-/ready": probe,
    }
    yield web.static("/static", page.STATIC)
    for path, handler in pages.items():
        yield web.get(path, handler)
    for endpoint in ENDPOINTS:
        is_ingest = endpoint.method == hdrs.METH_POST
        limited = count_rejected(bodies.limit(endpoint.handle)) if is_ingest else large.limit(endpoint.handle)
        yield web.route(endpoint.method, endpoint.path, limited)
    for method in (hdrs.METH_POST, hdrs.METH_PUT):
        yield web.route(method, "/-/reload", reload)


@web.middleware
async def _hide_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Log an unexpected error, and keep its text out of the response: it may contain confidential data.

    A browser gets a page for an address that has none.
    """
    try:
        return await handler(request)
    except web.HTTPException as error:
        is_browser = "text/html" in request.headers.get(hdrs.ACCEPT, "")
        if error.status == HTTPStatus.NOT_FOUND and is_browser and not request.path.startswith(API):
            return await not_found(request)
        raise
    except Exception:  # noqa: BLE001  it is logged with its traceback
        _log.exception("request_failed", method=request.method, path=request.path)
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR)


@web.middleware
async def _reject_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject a body that is too long or of unknown length, and close the connection."""
    if request.method == hdrs.METH_POST and request.path == INGEST_PATH:
        return await handler(request)  # it reads the body, up to a limit of its own
    if (request.content_length or 0) <= MAX_BODY_BYTES and hdrs.TRANSFER_ENCODING not in request.headers:
        return await handler(request)
    text = f"The request body must have a Content-Length of at most {MAX_BODY_BYTES} bytes."
    return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, close=True)
