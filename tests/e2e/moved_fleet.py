"""The whole exporter on a moved clock, with its web server on a real socket: what tests and pictures of the page use.

Only its HTTP client is replaced, by one that asks simulations. The clock stands still unless it is moved, so a page
and its metrics can be compared number by number.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from unittest import mock

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.web.server import ListenAddress
from tests.conftest import FakeClock, settle
from tests.e2e.faster_clock import Network, Server

_TURNS = 5
_SENT_EVERY = 5.0
"""Seconds from one batch of requests to the next, where they are taken."""


class MovedFleet:
    """A running exporter."""

    def __init__(self, service: Service, clock: FakeClock, network: Network) -> None:
        self.service, self.clock, self._network = service, clock, network

    @property
    def url(self) -> str:
        """The address of the page."""
        return self.service.urls[0]

    async def advance(self, seconds: float) -> None:
        """Let time pass, and what the servers' responses say arrive now and then."""
        if self.service.state.receiver() is None:
            await self.clock.advance(seconds, _TURNS)
            return
        while seconds > 0:
            await self.clock.advance(min(seconds, _SENT_EVERY), _TURNS)
            await self._network.send(self.service)
            seconds -= _SENT_EVERY


@contextlib.asynccontextmanager
async def moved_fleet(
    servers: Sequence[Server], wall: float = 1_790_000_000.0, **config: object
) -> AsyncIterator[MovedFleet]:
    """Serve an exporter of all metrics that watches these servers; ``config`` is more of its configuration."""
    clock = FakeClock(wall=wall)
    targets = [server.target() for server in servers]
    settings = Config.model_validate({"targets": targets, "metrics": {"profile": "full"}, **config})
    network = Network(servers, clock, telling=settings.requests.ingest)
    with (
        mock.patch("spec_decode_exporter.monitor.target_monitor.Client", return_value=network),
    ):
        service = Service(lambda: settings, Options(addresses=[ListenAddress("127.0.0.1", 0)]), clock)
        await service.start()
        try:
            await settle()
            yield MovedFleet(service, clock, network)
        finally:
            await service.close()
