"""The web application: routes, middlewares, limits of concurrent requests, and management endpoints."""

from __future__ import annotations

from functools import cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import hdrs, web

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.scrape.client import USER_AGENT_PREFIX
from spec_decode_exporter.web.endpoint import INGEST_PATH, problems
from spec_decode_exporter.web.endpoint import ROOT as API
from spec_decode_exporter.web.hosts import host_guard
from spec_decode_exporter.web.limits import DEFAULT_HEADERS, INTERNAL_ERROR, Limit, error_response
from spec_decode_exporter.web.metrics_page import METRICS, SharedPage, metrics
from spec_decode_exporter.web.state import STATE, ExporterState

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from spec_decode_exporter.web.security import Guard

MAX_UNREAD_BODY: Final = 64 * 1024
"""Bytes of a request body that no handler reads."""

_log = structlog.get_logger()


async def _say(text: str, _request: web.Request) -> web.Response:
    return web.Response(text=text)


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


_PROGRAMS: Final[dict[str, Handler]] = {
    "/metrics": metrics,
    "/-/healthy": partial(_say, "spec-decode-exporter is healthy.\n"),
    # It listens only after it has loaded its configuration. A vLLM that is down leaves the pod ready.
    "/-/ready": partial(_say, "spec-decode-exporter is ready.\n"),
}
"""What Prometheus and Kubernetes request."""


def create_app(state: ExporterState, guard: Guard | None = None) -> web.Application:
    """Return the application, with ``guard`` before every handler."""
    guards = [host_guard(state.allowed_hosts), *([guard.middleware] if guard else [])]
    app = web.Application(middlewares=[problems, _hide_errors, _reject_polls, *guards, _reject_bodies])
    app[STATE] = state
    app[METRICS] = SharedPage(state.metrics)

    async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(DEFAULT_HEADERS)

    app.on_response_prepare.append(add_headers)
    routes = cache(_routes)

    async def handle(request: web.Request) -> web.StreamResponse:
        return await (await routes().resolve(request)).handler(request)

    app.router.add_routes([web.get(*route) for route in _PROGRAMS.items()])
    app.router.add_route(hdrs.METH_ANY, "/{path:.*}", handle)
    return app


def _routes() -> web.UrlDispatcher:
    """Return every route. Large responses and bodies have limits; /metrics has none, as it is shared.

    Pages and API take 1.5 MB of memory: they are imported for the first request of a person.
    """
    from spec_decode_exporter.web import page
    from spec_decode_exporter.web.api import ENDPOINTS, MAX_BODIES, count_rejected
    from spec_decode_exporter.web.documentation import ROOT, ROUTE, documentation, to_index

    large, bodies, routes = Limit(), Limit(MAX_BODIES), web.UrlDispatcher()
    pages: dict[str, Handler] = {
        "/": large.limit(page.page),
        "/fragment": large.limit(page.fragment),
        **{f"/static/{name}": page.static for name in page.STATIC},
        ROUTE: documentation,
        ROOT.removesuffix("/"): to_index,
        "/config": config,
        **_PROGRAMS,
    }
    routes.add_routes([web.get(*route) for route in pages.items()])
    for endpoint in ENDPOINTS:
        is_ingest = endpoint.method == hdrs.METH_POST
        limited = count_rejected(bodies.limit(endpoint.handle)) if is_ingest else large.limit(endpoint.handle)
        routes.add_routes([web.route(endpoint.method, endpoint.path, limited)])
    routes.add_routes([web.post("/-/reload", reload), web.put("/-/reload", reload)])
    return routes


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
            from spec_decode_exporter.web.documentation import not_found

            return await not_found(request)
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
    if (request.content_length or 0) <= MAX_UNREAD_BODY and hdrs.TRANSFER_ENCODING not in request.headers:
        return await handler(request)
    text = f"The request body must have a Content-Length of at most {MAX_UNREAD_BODY} bytes."
    return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, close=True)
