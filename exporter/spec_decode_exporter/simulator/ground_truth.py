"""What is true of a scenario, for what was estimated from its counters to be held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.simulator.simulation import Simulation

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.scenario import Scenario

_NOTHING: Final = ((1, 1, 0),)
"""A schedule that drafts nothing for any batch."""


_LOADS: Final = tuple(2**doublings for doublings in range(9))
"""Running requests for which the cost is told."""


def target_settings(scenario: Scenario) -> dict[str, object]:
    """Return what an operator of the simulated server would know, as keys of a target's configuration."""
    speculation = scenario.speculation
    if not speculation.tokens:
        return {}
    known: dict[str, str] = {"method": speculation.method}
    if speculation.method == "draft_model":
        known["draft_model"] = speculation.draft_model
    loads = [
        {"running_requests": load, "draft_cost_ratio": draft_cost_ratio(scenario, load)} for load in _LOADS
    ]
    return {"speculative": known, "cost": {"loads": loads}}


def draft_cost_ratio(scenario: Scenario, requests: float) -> float:
    """Return what one more draft token costs a batch of ``requests``, in its steps without a draft.

    It is the mean over K tokens, drafted for every request, while no prompt is computed.
    """
    machine, speculation = scenario.machine, scenario.speculation
    plain = machine.seconds(requests)
    verifying = machine.seconds(requests * (1 + speculation.tokens)) - plain
    return (verifying / speculation.tokens + machine.step * speculation.cost) / plain


def speedup(scenario: Scenario, begin: float, end: float, seed: int = 0) -> float:
    """Return how much faster tokens come than if nothing were drafted, from second ``begin`` to ``end``.

    Two servers live through the same scenario, one of which never drafts, and their times per output token
    are divided. No restart may lie between the moments.
    """
    plain = scenario.model_copy(
        update={"speculation": scenario.speculation.model_copy(update={"tokens_per_batch_size": _NOTHING})}
    )
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
    """Return the seconds spent in decode steps, over all requests, and the tokens they gave."""
    counts = [engine.counts for engine in simulation.life.engines]
    seconds = sum(each.step.total for each in counts)
    return seconds, sum(each.generation_tokens - each.first_token.count for each in counts)
