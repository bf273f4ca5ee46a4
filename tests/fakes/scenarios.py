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
    without, drafting = (_time_per_output_token(each, begin, end, seed) for each in (plain, scenario))
    return without / drafting


def _time_per_output_token(scenario: Scenario, begin: float, end: float, seed: int) -> float:
    simulation = Simulation(scenario, seed)
    simulation.advance(begin)
    seconds, tokens = _decoded(simulation)
    simulation.advance(end - begin)
    later_seconds, later_tokens = _decoded(simulation)
    return (later_seconds - seconds) / (later_tokens - tokens)


def _decoded(simulation: Simulation) -> tuple[float, int]:
    """Return the seconds of decode steps, summed over all requests, and their tokens."""
    counts = [engine.counts for engine in simulation.engines]
    seconds = sum(each.step.total for each in counts)
    return seconds, sum(each.generation_tokens - each.first_token.count for each in counts)
