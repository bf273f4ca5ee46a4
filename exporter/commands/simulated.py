"""An embedded simulated vLLM, for the commands that watch servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def simulated(name: str) -> AsyncIterator[dict[str, object]]:
    """Serve a simulated vLLM inside this process; yields it as a target, with what drafting costs."""
    from exporter.simulate.library import load_scenario
    from exporter.simulate.server import serve
    from exporter.simulate.simulation import Simulation
    from exporter.simulate.truth import target_settings

    scenario = load_scenario(name)
    server = await serve(Simulation(scenario, seed=0), "127.0.0.1", 0)
    try:
        yield {
            "url": f"http://127.0.0.1:{server.port}/metrics",
            "name": "simulated-vllm",
            **target_settings(scenario),
        }
    finally:
        await server.close()
