"""The management pages under ``/-/`` and ``/config``, as Prometheus has them."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from spec_decode_exporter.config.errors import ConfigError
from spec_decode_exporter.web.state import STATE

RELOAD_METHODS: Final = ("POST", "PUT")


async def healthy(_request: web.Request) -> web.Response:
    """Answer 200 for as long as the process serves at all."""
    return web.Response(text="spec-decode-exporter is healthy.\n")


async def ready(_request: web.Request) -> web.Response:
    """Answer 200: the server listens only with a configuration. Readiness must not depend on the targets."""
    return web.Response(text="spec-decode-exporter is ready.\n")


async def reload(request: web.Request) -> web.Response:
    """Read the configuration again. A mistake in it is answered with 500, and the old one stays in force."""
    reload_configuration = request.app[STATE].reload
    if reload_configuration is None:
        return web.Response(
            status=403, text="Lifecycle API is not enabled. Start with --web.enable-lifecycle to have it.\n"
        )
    try:
        await reload_configuration()
    except ConfigError as error:
        return web.Response(
            status=500, text=f"The configuration was not reloaded, the old one stays:\n{error}\n"
        )
    return web.Response(text="The configuration was reloaded.\n")


async def config(request: web.Request) -> web.Response:
    """Show the configuration in force, without its secrets."""
    return web.Response(text=request.app[STATE].config_text())
