"""HTTP endpoints of a simulated vLLM: paths, queries, responses and content types of the original."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

from spec_decode_exporter.simulator import python_page, rust_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from spec_decode_exporter.simulator.simulation import Simulation
    from spec_decode_exporter.simulator.unix_time import UnixTime

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

VLLM_VERSION: Final = "0.32.0"


class FrontEnd:
    """Endpoints of ``simulation``; ``catch_up`` advances it to the present before each response."""

    def __init__(self, simulation: Simulation, unix: UnixTime, catch_up: Callable[[], None]) -> None:
        self._simulation = simulation
        self._unix = unix
        self._catch_up = catch_up

    def application(self) -> web.Application:
        """Return a new application; a closed one cannot be reused."""
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
        """Respond with the present state; abort the connection if the server is down."""
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
        """Serve the path without a slash: the whole page for any query."""
        return _answer(python_page.python_page(self._simulation, self._unix), python_page.CONTENT_TYPE)

    async def _filtered(self, request: web.Request) -> web.Response:
        """Serve the path with a slash: only the samples that the query names, if any.

        There prometheus_client negotiates the format. It writes OpenMetrics for every client that mentions
        it, and the names lose their colon.
        """
        names = request.query.getall("name[]", [])
        if not names:
            return await self._whole(request)
        page = python_page.filtered_page(self._simulation, self._unix, frozenset(names))
        if "openmetrics" in request.headers.get("Accept", ""):
            return _answer(page.replace(b"\nvllm:", b"\nvllm_") + b"# EOF\n", rust_page.CONTENT_TYPE)
        return _answer(page, python_page.CONTENT_TYPE)

    async def _rust(self, _: web.Request) -> web.Response:
        """Serve OpenMetrics for any query and any Accept header."""
        return _answer(rust_page.rust_page(self._simulation), rust_page.CONTENT_TYPE)


def _answer(page: bytes, content_type: str) -> web.Response:
    return web.Response(body=page, headers={"Content-Type": content_type})


def server_info(simulation: Simulation, config_format: str) -> dict[str, object]:
    """Return the body of ``/server_info`` with the configuration as ``text`` or ``json``."""
    settings = _speculative_config(simulation)
    config: object
    if config_format == "json":
        config = {"model_config": {"model": simulation.scenario.model_name}, "speculative_config": settings}
    else:
        config = (
            f"model={simulation.scenario.model_name!r}, speculative_config={_config_text(settings)}, seed=0"
        )
    return {"vllm_config": config, "vllm_env": {"VLLM_SERVER_DEV_MODE": True}, "system_env": {}}


def _speculative_config(simulation: Simulation) -> dict[str, object] | None:
    tokens, speculation = simulation.life.tokens, simulation.scenario.speculation
    if not tokens:
        return None
    return {
        "method": speculation.method,
        # vLLM sets the method as model if there is no draft model.
        "model": "ngram" if speculation.method == "ngram" else speculation.draft_model,
        "num_speculative_tokens": tokens,
        "num_speculative_tokens_per_batch_size": speculation.tokens_per_batch_size or None,
    }


def _config_text(settings: dict[str, object] | None) -> str:
    if settings is None:
        return "None"
    model = None if settings["method"] == "ngram" else settings["model"]
    tokens = settings["num_speculative_tokens"]
    return f"SpeculativeConfig(method={settings['method']!r}, {model=}, num_spec_tokens={tokens})"
