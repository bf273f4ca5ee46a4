"""A pod without speculation is replaced by one with it: the baseline belongs to the group, and the verdict is sure."""

from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.state import Remembered, parsed_state
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.simulator.scenario import Scenario
from tests.conftest import settle
from tests.fakes.saved_state import document_of
from tests.fakes.simulated import Server

LOAD = {"load": {"concurrency": 8}, "machine": {"jitter": 0.01}}
PLAIN = Scenario.model_validate({**LOAD, "speculation": {"tokens": 0, "method": "draft_model"}})
DRAFTING = Scenario.model_validate(
    {**LOAD, "speculation": {"method": "draft_model", "tokens": 4, "cost": 0.05}}
)
SERVED = 200  # seconds without speculation: a baseline needs a minute
BEFORE, AFTER = (
    Target(f"http://{name}:8000/metrics", f"{name}:8000", (("namespace", "prod"), ("pod", name)))
    for name in ("vllm-6c9f8d7b5-x2x9w", "vllm-7d5b9c6f4-k8s2p")
)
"""Discovered pods of a Deployment."""


@asynccontextmanager
async def watching(clock, remembered):
    """Run a fleet with what is remembered."""
    shared = Shared(clock)
    shared.remembered = remembered
    fleet = Fleet(Config(), shared)
    try:
        yield fleet
    finally:
        await fleet.stop()
        await fleet.close()


async def follow(fleet, clock, seconds, *targets):
    """Poll these targets; return the evaluation of the last one."""
    fleet.follow(targets)
    await settle(100)
    await clock.advance(seconds, turns=100)
    found = {labels["target"]: snapshot for labels, snapshot in fleet.engines()}
    return found[targets[-1].name].evaluation


async def test_the_next_pod_of_a_deployment_has_the_baseline_of_the_one_that_it_replaces_after_a_restart_too(
    clock, network
):
    network.servers[BEFORE.name] = Server(clock, PLAIN, running=60)
    network.servers[AFTER.name] = Server(clock, DRAFTING, running=60)
    first, second = Remembered(), Remembered()
    async with watching(clock, first) as fleet, watching(clock, second) as restarted:
        await follow(fleet, clock, SERVED, BEFORE)
        fleet.remember()
        second.recall(parsed_state(document_of(first, clock.wall())))
        for each in (fleet, restarted):
            evaluation = await follow(each, clock, 320, AFTER)
            assert evaluation.longest.cost.source is CostSource.BASELINE
            assert evaluation.verdict in {Verdict.HEALTHY, Verdict.OPTIMAL}
            bounds = evaluation.longest.speedup_bounds
            assert 1 < bounds.lower < bounds.upper < inf


async def test_neither_a_pod_beside_the_drafting_one_nor_another_deployment_gives_a_baseline(clock, network):
    network.servers[BEFORE.name] = Server(clock, PLAIN, running=60)
    network.servers[AFTER.name] = Server(clock, DRAFTING, running=60)
    async with watching(clock, Remembered()) as fleet:
        assert (await follow(fleet, clock, 320, BEFORE, AFTER)).longest.cost is None
    async with watching(clock, Remembered()) as fleet:
        await follow(fleet, clock, SERVED, BEFORE)
        other = replace(AFTER, labels=(("deployment", "chat"), *AFTER.labels))
        assert (await follow(fleet, clock, 320, other)).longest.cost is None
