"""Management endpoints ``/-/…`` and ``/config``, with the paths of Prometheus."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from aiohttp import web

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.web.server.plain_response import error_response
from spec_decode_exporter.web.state import STATE

RELOAD_METHODS: Final = ("POST", "PUT")


async def healthy(_request: web.Request) -> web.Response:
    """Return 200 while the process serves requests."""
    return web.Response(text="spec-decode-exporter is healthy.\n")


async def ready(_request: web.Request) -> web.Response:
    """Return 200: the exporter listens only after it has loaded its configuration.

    The answer is independent of all targets, so a vLLM that is down leaves the pod ready.
    """
    return web.Response(text="spec-decode-exporter is ready.\n")


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


async def config(request: web.Request) -> web.Response:
    """Return the active configuration without its secrets."""
    return web.Response(text=request.app[STATE].config_text())
