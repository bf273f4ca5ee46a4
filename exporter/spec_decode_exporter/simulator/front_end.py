"""vLLM's HTTP surface, as far as it is watched: the same paths, queries, answers and content types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

from spec_decode_exporter.simulator import python_page, rust_page
from spec_decode_exporter.simulator.server_info_page import server_info

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from spec_decode_exporter.simulator.simulation import Simulation
    from spec_decode_exporter.simulator.unix_time import UnixTime

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

VLLM_VERSION: Final = "0.32.0"


class FrontEnd:
    """Answers for ``simulation``; ``catch_up`` moves it to now before each answer."""

    def __init__(self, simulation: Simulation, unix: UnixTime, catch_up: Callable[[], None]) -> None:
        self._simulation = simulation
        self._unix = unix
        self._catch_up = catch_up

    def application(self) -> web.Application:
        """Return a new application; one that was closed can't be used again."""
        app = web.Application(middlewares=[self._up_to_now])
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        if self._simulation.scenario.dev_mode:
            app.router.add_get("/server_info", self._server_info)
        if self._simulation.scenario.front_end == "rust":
            app.router.add_get("/metrics", self._rust)
        else:
            app.router.add_get("/metrics", self._whole)
            app.router.add_get("/metrics/", self._filtered)
        return app

    @web.middleware
    async def _up_to_now(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer as the server is now; if it has just been killed, cut the connection."""
        self._catch_up()
        if not self._simulation.serving and request.transport is not None:
            request.transport.abort()
        return await handler(request)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": VLLM_VERSION})

    async def _server_info(self, request: web.Request) -> web.Response:
        return web.json_response(server_info(self._simulation, request.query.get("config_format", "text")))

    async def _whole(self, _: web.Request) -> web.Response:
        """Answer without the slash: the whole page, whatever the query."""
        return _answer(python_page.python_page(self._simulation, self._unix), python_page.CONTENT_TYPE)

    async def _filtered(self, request: web.Request) -> web.Response:
        """Answer with the slash: only the samples that the query names, if it names any.

        Behind the slash prometheus_client negotiates. It writes OpenMetrics for a client that so much as
        mentions it, and there the names lose their colon.
        """
        names = request.query.getall("name[]", [])
        if not names:
            return await self._whole(request)
        page = python_page.filtered_page(self._simulation, self._unix, frozenset(names))
        if "openmetrics" in request.headers.get("Accept", ""):
            return _answer(page.replace(b"\nvllm:", b"\nvllm_") + b"# EOF\n", rust_page.CONTENT_TYPE)
        return _answer(page, python_page.CONTENT_TYPE)

    async def _rust(self, _: web.Request) -> web.Response:
        """Answer in OpenMetrics, whatever the query and the Accept header."""
        return _answer(rust_page.rust_page(self._simulation), rust_page.CONTENT_TYPE)


def _answer(page: bytes, content_type: str) -> web.Response:
    return web.Response(body=page, headers={"Content-Type": content_type})
