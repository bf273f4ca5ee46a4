"""The simulated vLLM on a socket, which moves with the clock and refuses connections while it is down."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from yarl import URL

from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.simulator.front_end import FrontEnd
from spec_decode_exporter.simulator.unix_time import UnixTime
from spec_decode_exporter.web.server import http_server
from spec_decode_exporter.web.server.listen import ListenAddress, ListenError

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.simulation import Simulation

TICK_SECONDS: Final = 0.05
"""How often the simulation moves while nobody asks; also how exactly an outage begins and ends."""

_MOST_CONNECTIONS: Final = 4096
"""A drill may have many exporters, or targets, at one stand-in."""

_LONGEST_MOVE: Final = 1.0
"""Seconds of the clock that are simulated at once. A simulation that can't keep up falls behind instead."""


class SimulatedServer:
    """A running stand-in; made by ``serve``.

    During the down time of a restart its port is closed, so that connections are refused as those to
    a dead process are.
    """

    def __init__(self, simulation: Simulation, host: str, *, speed: float, clock: Clock) -> None:
        self.port = 0
        """The port it listens on, the same after a restart."""
        self._simulation = simulation
        self._host = host
        self._speed = speed
        self._clock = clock
        self._moved_at = clock.monotonic()
        self._front_end = FrontEnd(simulation, UnixTime(clock.wall(), simulation.now, speed), self._catch_up)
        self._server: http_server.Server | None = None
        self._driver: asyncio.Task[None] | None = None

    @property
    def listening(self) -> bool:
        """False during an outage of the scenario, and when it was closed."""
        return self._server is not None

    async def open(self, port: int) -> None:
        """Listen on ``port``, and begin to move the simulation.

        Raises:
            ListenError: It can't have the port.
        """
        await self._listen(port)
        self._driver = asyncio.create_task(self._drive(), name="simulated vLLM")

    async def close(self) -> None:
        """Stop the simulation and close the port."""
        if self._driver is not None:
            self._driver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._driver
        await self._hang_up()

    async def _drive(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + TICK_SECONDS)
            self._catch_up()
            if not self._simulation.serving:
                await self._hang_up()
            elif not self.listening:
                # Another program may have taken the port meanwhile: then the next tick tries again.
                with contextlib.suppress(ListenError):
                    await self._listen(self.port)

    def _catch_up(self) -> None:
        """Move the simulation to now."""
        now = self._clock.monotonic()
        passed = min(now - self._moved_at, _LONGEST_MOVE)
        self._moved_at = now
        self._simulation.advance(passed * self._speed)

    async def _listen(self, port: int) -> None:
        address = ListenAddress(self._host, port)
        self._server = await http_server.serve(
            self._front_end.application(), [address], connections=_MOST_CONNECTIONS
        )
        self.port = URL(self._server.urls[0]).port or port

    async def _hang_up(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()


async def serve(
    simulation: Simulation, host: str, port: int, *, speed: float = 1.0, clock: Clock | None = None
) -> SimulatedServer:
    """Serve ``simulation`` at ``host``, empty for all interfaces, and ``port``, 0 for any free one.

    Simulated time passes ``speed`` times as fast as ``clock``. Creation times are told in Unix time as
    the clock has it, so that a restart lies in the past of whoever reads of it.

    Raises:
        ListenError: It can't have the port.
    """
    server = SimulatedServer(simulation, host, speed=speed, clock=clock or SystemClock())
    await server.open(port)
    return server
