"""Simulated vLLM on a socket: it follows the clock, and answers nothing while it is down.

Its requests can be sent to an exporter, as the middleware in vLLM or a gateway does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, web
from yarl import URL

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import cancel, spawn
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.simulator.simulated_request import Answer
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TICK_SECONDS: Final = 0.05  # interval of the simulation without requests
_MAX_ADVANCE: Final = 1.0
"""Seconds of the clock that are simulated at once; a slow simulation falls behind the clock."""
SEND_SECONDS: Final = 0.5  # interval of the batches of requests that are sent
_MAX_BATCH: Final = 1000  # twice a second: the exporter's default rate, also after the past of a demo
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class SimulatedServer:
    """Server of ``simulation``, which is ``speed`` times as fast as ``clock``.

    During the down time of a restart it ends each connection without an answer.
    Creation times are the clock's Unix times, so a restart is in the past of every reader.
    """

    def __init__(self, simulation: Simulation, *, speed: float = 1.0, clock: Clock | None = None) -> None:
        self.port = 0  # port of the server
        self._simulation = simulation
        self._speed = speed
        self._clock = clock or Clock()
        self._moved_at = self._clock.monotonic()
        self._start = self._clock.wall() - simulation.now / speed
        self._runner: web.AppRunner | None = None
        self._driver: asyncio.Task[None] | None = None

    async def open(self, host: str, port: int) -> None:
        """Start to serve at ``host``, empty for all interfaces, and ``port``, 0 for any free one.

        Raises:
            ExporterError: The port is not available; the text names it and the cause.
        """
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=3.0)
        await runner.setup()
        try:
            # A drill may connect many exporters or targets to one server.
            await web.TCPSite(runner, host or None, port, backlog=1024).start()
        except (OSError, UnicodeError) as error:
            await runner.cleanup()
            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            # asyncio's text names the address again before the cause.
            cause = getattr(error, "strerror", "").rpartition(": ")[2] or "the host is not a valid name"
            raise ExporterError(f"cannot listen on {place}: {cause}; choose another address") from error
        self.port, self._runner = runner.addresses[0][1], runner
        self._driver = spawn(self._drive())

    async def close(self) -> None:
        """Stop the simulation and close the port."""
        await cancel([self._driver])
        if self._runner is not None:
            await self._runner.cleanup()

    async def _drive(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + TICK_SECONDS)
            self.catch_up()

    def catch_up(self) -> None:
        """Advance the simulation to the present."""
        now = self._clock.monotonic()
        passed = min(now - self._moved_at, _MAX_ADVANCE)
        self._moved_at = now
        self._simulation.advance(passed * self._speed)

    def application(self) -> web.Application:
        """Return vLLM's endpoints: its paths, queries, responses and content types."""
        scenario = self._simulation.scenario
        app = web.Application(middlewares=[self._present])
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/metrics/", self._filtered)
        if scenario.dev_mode:
            app.router.add_get("/server_info", self._server_info)
        return app

    @web.middleware
    async def _present(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Respond with the present state; abort the connection if the server is down."""
        self.catch_up()
        if not self._simulation.serving and request.transport is not None:
            request.transport.abort()
        return await handler(request)

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def _metrics(self, _: web.Request) -> web.Response:
        """Serve the whole page for any query and any Accept header."""
        page = metrics_page(self._simulation, start=self._start, speed=self._speed)
        return web.Response(body=page, headers={"Content-Type": _TEXT})

    async def _filtered(self, request: web.Request) -> web.Response:
        """Serve the path with a slash: only the samples that the query names, if any.

        There prometheus_client negotiates the format. It writes OpenMetrics for every client that mentions
        it, and the names lose their colon.
        """
        names = request.query.getall("name[]", [])
        if not names:
            return await self._metrics(request)
        page = metrics_page(self._simulation, names, start=self._start, speed=self._speed)
        if "openmetrics" not in request.headers.get("Accept", ""):
            return web.Response(body=page, headers={"Content-Type": _TEXT})
        page = page.replace(b"\nvllm:", b"\nvllm_") + b"# EOF\n"
        return web.Response(body=page, headers={"Content-Type": _OPEN_METRICS})

    async def _server_info(self, _: web.Request) -> web.Response:
        return web.json_response(server_info(self._simulation))


def server_info(simulation: Simulation) -> dict[str, object]:
    """Return the body of ``/server_info?config_format=json``."""
    speculation, model = simulation.speculation, simulation.scenario.model_name
    is_ngram = speculation.method == "ngram"
    settings = {
        "method": speculation.method,
        "model": "ngram" if is_ngram else speculation.draft_model,  # as vLLM does without a draft model
        "num_speculative_tokens": speculation.tokens,
        "num_speculative_tokens_per_batch_size": speculation.tokens_per_batch_size or None,
    }
    config = {
        "model_config": {"model": model},
        "speculative_config": settings if speculation.tokens else None,
    }
    return {"vllm_config": config, "vllm_env": {"VLLM_SERVER_DEV_MODE": True}, "system_env": {}}


class RequestSender:
    """Posts requests to an exporter in batches, as NDJSON; a batch that it does not take is lost."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Print the first of several failures."""
        self._clock = clock or Clock()
        self._waiting: deque[bytes] = deque(maxlen=10_000)  # the oldest are dropped
        self._failures = OnceUntilRecovered()

    def take(self, answer: Answer) -> None:
        """Queue one request for the next batch."""
        self._waiting.append(json.dumps(answer).encode())

    async def send_for_ever(self, exporter: str) -> None:
        """Send batches to the exporter at this URL until cancelled."""
        url = URL(exporter) / "api/v1/requests"
        async with ClientSession(timeout=ClientTimeout(total=5.0), cookie_jar=DummyCookieJar()) as session:
            while True:
                await self._clock.sleep_until(self._clock.monotonic() + SEND_SECONDS)
                if self._waiting:
                    await self._send(session, url)

    async def _send(self, session: ClientSession, url: URL) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
        reason = ""
        try:
            headers = {"Content-Type": "application/x-ndjson"}
            async with session.post(url, data=b"\n".join(batch), headers=headers) as answer:
                await answer.read()
                reason = "" if answer.ok else f"it answered {answer.status}"
        except (ClientError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
        if not reason:
            self._failures.recovered()
        elif self._failures.failed():
            print(f"requests cannot be delivered: {reason}", file=sys.stderr, flush=True)  # noqa: T201
