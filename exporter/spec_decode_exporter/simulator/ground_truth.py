"""Ground truth of a scenario: costs and speed-ups to compare estimates with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spec_decode_exporter.simulator.simulation import Simulation

if TYPE_CHECKING:
    from spec_decode_exporter.simulator.scenario import Scenario

_NOTHING: Final = ((1, 1, 0),)
"""A schedule without drafts for any batch."""
_LOADS: Final = tuple(2**doublings for doublings in range(9))
"""Running requests for which the cost is given."""


def target_settings(scenario: Scenario) -> dict[str, object]:
    """Return the settings that an operator of the server knows, as keys of a target's configuration."""
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
    """Return the cost of one more draft token for a batch of ``requests``, in plain decode steps.

    It is the mean over K tokens, drafted for every request, without prefills.
    """
    machine, speculation = scenario.machine, scenario.speculation
    plain = machine.seconds(requests)
    verifying = machine.seconds(requests * (1 + speculation.tokens)) - plain
    return (verifying / speculation.tokens + machine.step * speculation.cost) / plain


def speedup(scenario: Scenario, begin: float, end: float, seed: int = 0) -> float:
    """Return the speed-up over the same server without drafts, from second ``begin`` to ``end``.

    It is the ratio of the times per output token of two simulations, one of which never drafts. No restart
    may be between the moments.
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
    """Return the seconds of decode steps, summed over all requests, and their tokens."""
    counts = [engine.counts for engine in simulation.life.engines]
    seconds = sum(each.step.total for each in counts)
    return seconds, sum(each.generation_tokens - each.first_token.count for each in counts)
