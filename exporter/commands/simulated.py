"""An embedded simulated vLLM, for the commands that watch servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exporter.simulate.answer import Answer


@asynccontextmanager
async def simulated(
    name: str, answered: Callable[[Answer], None] | None = None
) -> AsyncIterator[dict[str, object]]:
    """Serve a simulated vLLM inside this process; yields it as a target, with what drafting costs.

    ``answered`` is told what each response says of its request.
    """
    from exporter.simulate.library import load_scenario
    from exporter.simulate.server import serve
    from exporter.simulate.simulation import Simulation
    from exporter.simulate.truth import target_settings

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
