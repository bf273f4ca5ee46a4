"""Simulated vLLM inside the process, for commands with ``--simulate``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.response_metrics import Answer


@asynccontextmanager
async def simulated(
    name: str, answered: Callable[[Answer], None] | None = None
) -> AsyncIterator[dict[str, object]]:
    """Serve a simulated vLLM; yield it as a target, with the cost of a draft token.

    ``answered`` receives the request metrics of each response.
    """
    from spec_decode_exporter.simulator.ground_truth import target_settings
    from spec_decode_exporter.simulator.scenario_library import load_scenario
    from spec_decode_exporter.simulator.simulated_server import serve
    from spec_decode_exporter.simulator.simulation import Simulation

    scenario = load_scenario(name)
    server = await serve(Simulation(scenario, 0, answered), "127.0.0.1", 0)
    try:
        yield {
            "url": f"http://127.0.0.1:{server.port}/metrics",
            "name": "simulated-vllm",
            **target_settings(scenario),
        }
    finally:
        await server.close()
