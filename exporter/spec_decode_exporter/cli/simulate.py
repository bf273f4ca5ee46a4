"""Command ``spec-decode-exporter simulate``, and the simulated vLLM inside other commands' processes."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from spec_decode_exporter.cli.flags import Flag, add_flags, exporter_url, number, reader, scenario
from spec_decode_exporter.cli.process import stop_on_signals
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.tasks import cancel, spawn
from spec_decode_exporter.scrape.poller import Poller
from spec_decode_exporter.simulator.scenario import INCLUDED, load_scenario
from spec_decode_exporter.simulator.simulated_request import Answer
from spec_decode_exporter.simulator.simulated_server import RequestSender, SimulatedServer
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.web.server import ListenAddress, parse_listen_address

PAST_SECONDS: Final = 330  # seconds that a demo has behind it: the longest default window, and some
_FOUND_WITHIN: Final = 5.0
"""Real seconds in which the targets of a demo are found, or the demo starts without a past."""
_RETRY_SECONDS: Final = 0.02


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the flags of the command; they have no environment variables."""
    del environ
    scenarios = f"scenario: {', '.join(INCLUDED)}, or a YAML file (default: steady)"
    speed = "factor by which simulated time is faster than real time (default: 1)"
    exporter = "send the metrics of each request to this exporter, such as http://localhost:7732"
    table = (
        Flag("--scenario", "NAME|FILE", scenarios, read=scenario, default="steady"),
        Flag("--listen-address", "HOST:PORT", "address of /metrics (default: :8000)", read=reader(parse_listen_address), default=":8000"),
        Flag("--speed", "FACTOR", speed, read=number(1000.0, above_zero=True), default=1.0),
        Flag("--requests.url", "URL", exporter, read=reader(exporter_url)),
    )  # fmt: skip
    add_flags(parser, table)


def handle(arguments: argparse.Namespace) -> int:
    """Serve the scenario until SIGINT or SIGTERM; return the exit status."""
    asyncio.run(run(arguments))
    return 0


async def run(arguments: argparse.Namespace) -> None:
    """Serve the scenario until SIGINT or SIGTERM."""
    sender = RequestSender() if arguments.requests_url else None
    simulation = Simulation(load_scenario(arguments.scenario), answered=sender.take if sender else None)
    address: ListenAddress = arguments.listen_address
    server = SimulatedServer(simulation, speed=arguments.speed)
    await server.open(address.host, address.port)
    # The host of this machine stands for all interfaces.
    host = "localhost" if address.host in {"", "::", "0.0.0.0"} else address.host
    url = f"http://{ListenAddress(host, server.port)}/metrics"
    started = (
        f"A simulated vLLM ({arguments.scenario}, speed {arguments.speed:g}) serves {url}; Ctrl-C ends it."
    )
    print(started, flush=True)  # noqa: T201
    sending = spawn(sender.send_for_ever(str(arguments.requests_url))) if sender else None
    stopped = asyncio.Event()
    stop_on_signals(stopped)
    await stopped.wait()
    await cancel([sending])
    await server.close()


@asynccontextmanager
async def simulated(
    name: str, answered: Callable[[Answer], None] | None = None, clock: Clock | None = None
) -> AsyncIterator[tuple[dict[str, Any], SimulatedServer]]:
    """Serve a simulated vLLM; yield the server as a target of the configuration, with its cost, and itself.

    ``answered`` receives the request metrics of each response; the simulation follows ``clock``.
    """
    settings = load_scenario(name)
    server = SimulatedServer(Simulation(settings, 0, answered), clock=clock)
    await server.open("127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.port}/metrics"
        yield {"url": url, "name": f"simulated-{Path(name).stem}", **settings.target_settings()}, server
    finally:
        await server.close()


class PastClock(Clock):
    """A clock that is behind the real one until ``step`` has caught up; until then, all sleepers wait.

    The windows of a demo are therefore full at the first look.
    """

    def __init__(self, seconds: int = PAST_SECONDS) -> None:
        """Begin ``seconds`` ago."""
        self._behind = float(seconds)
        self._present = asyncio.Event()

    def monotonic(self) -> float:
        """Return the real time, less what is not lived through yet."""
        return super().monotonic() - self._behind

    def wall(self) -> float:
        """Return the Unix time, less the same."""
        return super().wall() - self._behind

    async def sleep_until(self, moment: float) -> None:
        """Sleep; in the past, until it is over."""
        await self._present.wait()
        await super().sleep_until(moment)

    def step(self, seconds: float = 1.0) -> bool:
        """Go on by some seconds; return whether it is still the past."""
        self._behind = max(0.0, self._behind - seconds)
        if not self._behind:
            self._present.set()
        return not self._present.is_set()


async def live_through(
    clock: PastClock, servers: Sequence[SimulatedServer], pollers: Callable[[], Iterable[Poller]]
) -> None:
    """Poll all targets once for each second of the past.

    Args:
        clock: Clock of the targets and of their simulation.
        servers: Their simulations. Each advances before the polls: they would count it as time of the server.
        pollers: Returns a poller for each target found so far.
    """
    try:
        async with asyncio.timeout(_FOUND_WITHIN):
            while len(found := list(pollers())) < len(servers):  # noqa: ASYNC110 - discovery has no event for it
                await asyncio.sleep(_RETRY_SECONDS)
        while clock.step():
            for server in servers:
                server.catch_up()
            for poller in found:
                await poller.poll()
    except TimeoutError:
        pass
    finally:
        clock.step(PAST_SECONDS)
