"""A pod without speculation is replaced by one with it: the baseline belongs to the group, and the verdict is sure."""

from math import inf

import pytest

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


def pod(name, **labels):
    """A discovered pod of a Deployment."""
    own = {"namespace": "prod", "pod": name, **labels}
    return Target(f"http://{name}:8000/metrics", f"{name}:8000", tuple(sorted(own.items())))


SERVED = 200  # seconds without speculation: a baseline needs a minute
BEFORE, AFTER = pod("vllm-6c9f8d7b5-x2x9w"), pod("vllm-7d5b9c6f4-k8s2p")


@pytest.fixture(name="fleet")
async def fleet_fixture(clock, network):
    network.servers["vllm-6c9f8d7b5-x2x9w:8000"] = Server(clock, PLAIN, running=60)
    network.servers["vllm-7d5b9c6f4-k8s2p:8000"] = Server(clock, DRAFTING, running=60)
    started = []

    def fleet(remembered):
        shared = Shared(clock)
        shared.remembered = remembered
        started.append(Fleet(Config(), shared))
        return started[-1]

    yield fleet
    for each in started:
        await each.stop()
        await each.close()


async def follow(fleet, clock, seconds, *targets):
    """Poll these targets; return the evaluation of the last one."""
    fleet.follow(targets)
    await settle(100)
    await clock.advance(seconds, turns=100)
    found = {labels["target"]: snapshot for labels, snapshot in fleet.engines()}
    return found[targets[-1].name].evaluation


async def test_the_next_pod_of_a_deployment_has_the_baseline_of_the_one_that_it_replaces_after_a_restart_too(
    fleet, clock
):
    first, second = Remembered(), Remembered()
    its = fleet(first)
    await follow(its, clock, SERVED, BEFORE)
    its.remember()
    second.recall(parsed_state(document_of(first, clock.wall())))
    for each in (its, fleet(second)):
        evaluation = await follow(each, clock, 320, AFTER)
        assert evaluation.longest.cost.source is CostSource.BASELINE
        assert evaluation.verdict in {Verdict.HEALTHY, Verdict.OPTIMAL}
        bounds = evaluation.longest.speedup_bounds
        assert 1 < bounds.lower < bounds.upper < inf


async def test_neither_a_pod_beside_the_drafting_one_nor_another_deployment_gives_a_baseline(fleet, clock):
    assert (await follow(fleet(Remembered()), clock, 320, BEFORE, AFTER)).longest.cost is None
    its = fleet(Remembered())
    await follow(its, clock, SERVED, BEFORE)
    other = pod("vllm-7d5b9c6f4-k8s2p", deployment="chat")
    assert (await follow(its, clock, 320, other)).longest.cost is None
