"""Simulated vLLM on a socket: it follows the clock and refuses connections while it is down."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from yarl import URL

from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.simulator.front_end import FrontEnd
from spec_decode_exporter.simulator.unix_time import UnixTime
from spec_decode_exporter.web.server import listen

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.simulation import Simulation

TICK_SECONDS: Final = 0.05
"""Interval of the simulation without requests, and so the precision of an outage's begin and end."""

_MAX_CONNECTIONS: Final = 4096
"""A drill may connect many exporters or targets to one server."""

_MAX_ADVANCE: Final = 1.0
"""Seconds of the clock that are simulated at once; a slow simulation falls behind the clock."""


class SimulatedServer:
    """A running simulated server; see ``serve``.

    During the down time of a restart its port is closed, so connections are refused as by a dead process.
    """

    def __init__(self, simulation: Simulation, host: str, *, speed: float, clock: Clock) -> None:
        self.port = 0
        """Port of the server, the same after a restart."""
        self._simulation = simulation
        self._host = host
        self._speed = speed
        self._clock = clock
        self._moved_at = clock.monotonic()
        self._front_end = FrontEnd(simulation, UnixTime(clock.wall(), simulation.now, speed), self._catch_up)
        self._server: listen.Server | None = None
        self._driver: asyncio.Task[None] | None = None

    @property
    def listening(self) -> bool:
        """False during an outage of the scenario and after ``close``."""
        return self._server is not None

    async def open(self, port: int) -> None:
        """Listen on ``port`` and start the simulation.

        Raises:
            ListenError: The port is not available.
        """
        await self._listen(port)
        self._driver = asyncio.create_task(self._drive(), name="simulated vLLM")

    async def close(self) -> None:
        """Stop the simulation and close the port."""
        if self._driver is not None:
            self._driver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._driver
        await self._stop_listening()

    async def _drive(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + TICK_SECONDS)
            self._catch_up()
            if not self._simulation.serving:
                await self._stop_listening()
            elif not self.listening:
                # Another program may have the port now: the next tick tries again.
                with contextlib.suppress(listen.ListenError):
                    await self._listen(self.port)

    def _catch_up(self) -> None:
        """Advance the simulation to the present."""
        now = self._clock.monotonic()
        passed = min(now - self._moved_at, _MAX_ADVANCE)
        self._moved_at = now
        self._simulation.advance(passed * self._speed)

    async def _listen(self, port: int) -> None:
        address = listen.ListenAddress(self._host, port)
        self._server = await listen.serve(
            self._front_end.application(), [address], connections=_MAX_CONNECTIONS
        )
        self.port = URL(self._server.urls[0]).port or port

    async def _stop_listening(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()


async def serve(
    simulation: Simulation, host: str, port: int, *, speed: float = 1.0, clock: Clock | None = None
) -> SimulatedServer:
    """Serve ``simulation`` at ``host``, empty for all interfaces, and ``port``, 0 for any free one.

    Simulated time is ``speed`` times as fast as ``clock``. Creation times are the clock's Unix times, so a
    restart is in the past of every reader.

    Raises:
        ListenError: The port is not available.
    """
    server = SimulatedServer(simulation, host, speed=speed, clock=clock or SystemClock())
    await server.open(port)
    return server
