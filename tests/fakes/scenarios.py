"""Scenarios of the simulator by name: those of the package, and those of ``tests/data/scenarios``; and their truth."""

from __future__ import annotations

from spec_decode_exporter.simulator.scenario import Scenario, load_scenario
from spec_decode_exporter.simulator.simulation import Simulation
from tests.paths import DATA

FOLDER = DATA / "scenarios"
_PLAIN = {"tokens_per_batch_size": ((1, 1, 0),), "cost": 0.0}
"""A schedule without drafts for any batch, and a drafter whose first pass is free."""


def scenario(name: str) -> Scenario:
    """Return a scenario of the tests or of the package."""
    file = FOLDER / f"{name}.yml"
    return load_scenario(str(file) if file.is_file() else name)


def speedup(scenario: Scenario, begin: float, end: float, seed: int = 0) -> float:
    """Return the speed-up over the same server without drafts, from second ``begin`` to ``end``.

    It is the ratio of the times per output token of two simulations, one of which never drafts. No restart
    may be between the moments.
    """
    speculation = scenario.speculation.model_copy(update=_PLAIN)
    plain = scenario.model_copy(update={"speculation": speculation})
    times = []
    for each in (plain, scenario):
        simulation = Simulation(each, seed)
        # Of decode steps, summed over all requests.
        seconds: list[float] = []
        tokens: list[int] = []
        for passed in (begin, end - begin):
            simulation.advance(passed)
            counts = [engine.counts for engine in simulation.engines]
            seconds.append(sum(one.step.total for one in counts))
            tokens.append(sum(one.generation_tokens - one.first_token.count for one in counts))
        times.append((seconds[1] - seconds[0]) / (tokens[1] - tokens[0]))
    without, drafting = times
    return without / drafting
