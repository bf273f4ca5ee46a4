"""Server of recorded metrics pages: it shows each page at its time, and then the last one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from aiohttp import web

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.simulator.simulated_server import listening_socket

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class TimedPage(NamedTuple):
    """A page of one of the recorded servers."""

    at: float
    """Seconds since the start."""
    server: int
    """Number of the server, from 0."""
    page: bytes


class ReplayServer:
    """Serves the pages of several servers: ``/metrics`` of the first, ``/1/metrics`` of the second, …."""

    def __init__(self, pages: Iterator[TimedPage], clock: Clock) -> None:
        """Show ``pages``, which are in the order of time."""
        self._pages = pages
        self._clock = clock
        self._shown: dict[int, bytes] = {}
        self._runner: web.AppRunner | None = None
        self._driver: asyncio.Task[None] | None = None
        self.port = 0

    async def open(self, host: str, port: int) -> None:
        """Listen, and start with the first page.

        Raises:
            PortError: The port is not available.
        """
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get(r"/{server:\d{1,6}}/metrics", self._metrics)
        listening = await listening_socket(host, port)
        self.port = listening.getsockname()[1]
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()
        self._driver = asyncio.create_task(self.replay(), name="recorded pages")

    async def close(self) -> None:
        """Stop, and close the port."""
        if self._driver is not None:
            self._driver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._driver
        if self._runner is not None:
            await self._runner.cleanup()

    async def replay(self) -> None:
        """Show each page at its time."""
        start = self._clock.monotonic()
        for at, server, page in self._pages:
            await self._clock.sleep_until(start + at)
            self._shown[server] = page

    async def _metrics(self, request: web.Request) -> web.Response:
        page = self._shown.get(int(request.match_info.get("server", "0")))
        if page is None:
            raise web.HTTPNotFound(text="no page of this server yet\n")
        return web.Response(body=page, headers={"Content-Type": _CONTENT_TYPE})
