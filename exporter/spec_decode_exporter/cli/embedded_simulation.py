"""Simulated vLLM inside the process, for commands with ``--simulate``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.simulator.simulated_request import Answer


class EmbeddedServer(NamedTuple):
    """A simulated vLLM inside the process."""

    target: dict[str, object]
    """The server as a target of the configuration, with the cost of a draft token."""
    catch_up: Callable[[], None]
    """Advance the simulation to the present of its clock."""


@asynccontextmanager
async def simulated(
    name: str, answered: Callable[[Answer], None] | None = None, clock: Clock | None = None
) -> AsyncIterator[EmbeddedServer]:
    """Serve a simulated vLLM.

    ``answered`` receives the request metrics of each response; the simulation follows ``clock``.
    """
    from spec_decode_exporter.simulator.scenario import load_scenario
    from spec_decode_exporter.simulator.simulated_server import SimulatedServer
    from spec_decode_exporter.simulator.simulation import Simulation

    scenario = load_scenario(name)
    server = SimulatedServer(Simulation(scenario, 0, answered), clock=clock)
    await server.open("127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.port}/metrics"
        target = {"url": url, "name": "simulated-vllm", **scenario.target_settings()}
        yield EmbeddedServer(target, server.catch_up)
    finally:
        await server.close()
