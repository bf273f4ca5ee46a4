"""Simulated vLLM on a socket: it follows the clock and refuses connections while it is down."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import TYPE_CHECKING, Final

from aiohttp import web

from spec_decode_exporter.core.clock import Clock, SystemClock
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.simulator.front_end import FrontEnd
from spec_decode_exporter.simulator.unix_time import UnixTime

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.simulation import Simulation

TICK_SECONDS: Final = 0.05
"""Interval of the simulation without requests, and so the precision of an outage's begin and end."""

_BACKLOG: Final = 1024
"""Connections that wait for acceptance: a drill may connect many exporters or targets to one server."""

_DRAIN_SECONDS: Final = 3.0
"""Requests in progress may end in this time after the port is closed."""

_MAX_ADVANCE: Final = 1.0
"""Seconds of the clock that are simulated at once; a slow simulation falls behind the clock."""


_CAUSES: Final = {
    errno.EADDRINUSE: "the port is in use; stop the program that has it",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address",
    errno.EACCES: "this user may not have that port",
}


class PortError(ExporterError):
    """The port is not available; the text names it and the cause."""


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
        self._front_end = FrontEnd(simulation, UnixTime(clock.wall(), simulation.now, speed), self.catch_up)
        self._runner: web.AppRunner | None = None
        self._driver: asyncio.Task[None] | None = None

    @property
    def listening(self) -> bool:
        """False during an outage of the scenario and after ``close``."""
        return self._runner is not None

    async def open(self, port: int) -> None:
        """Listen on ``port`` and start the simulation.

        Raises:
            PortError: The port is not available.
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
            self.catch_up()
            if not self._simulation.serving:
                await self._stop_listening()
            elif not self.listening:
                # Another program may have the port now: the next tick tries again.
                with contextlib.suppress(PortError):
                    await self._listen(self.port)

    def catch_up(self) -> None:
        """Advance the simulation to the present."""
        now = self._clock.monotonic()
        passed = min(now - self._moved_at, _MAX_ADVANCE)
        self._moved_at = now
        self._simulation.advance(passed * self._speed)

    async def _listen(self, port: int) -> None:
        listening = await listening_socket(self._host, port)
        self.port = listening.getsockname()[1]
        self._runner = web.AppRunner(
            self._front_end.application(), access_log=None, shutdown_timeout=_DRAIN_SECONDS
        )
        await self._runner.setup()
        await web.SockSite(self._runner, listening, backlog=_BACKLOG).start()

    async def _stop_listening(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


async def serve(
    simulation: Simulation, host: str, port: int, *, speed: float = 1.0, clock: Clock | None = None
) -> SimulatedServer:
    """Serve ``simulation`` at ``host``, empty for all interfaces, and ``port``, 0 for any free one.

    Simulated time is ``speed`` times as fast as ``clock``. Creation times are the clock's Unix times, so a
    restart is in the past of every reader.

    Raises:
        PortError: The port is not available.
    """
    server = SimulatedServer(simulation, host, speed=speed, clock=clock or SystemClock())
    await server.open(port)
    return server


async def listening_socket(host: str, port: int) -> socket.socket:
    """Bind one socket; without a host for IPv4 and IPv6, for a name to one address, IPv4 if it has one.

    Raises:
        PortError: The port is not available.
    """
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        addresses = await asyncio.get_running_loop().getaddrinfo(
            host or "0.0.0.0",
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        family, *_, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
        return socket.create_server(address, family=family)
    except (OSError, UnicodeError) as error:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        cause = _cause(error)
        raise PortError(f"cannot listen on {place}: {cause}, or choose another address") from error


def _cause(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError):  # the codec for host names
        return "the host is not a valid name"
    return _CAUSES.get(error.errno or 0, error.strerror or str(error))
