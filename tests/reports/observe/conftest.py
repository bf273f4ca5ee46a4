"""Observations of simulated servers, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.reports.observe.observation_config import observed_config
from spec_decode_exporter.reports.observe.session import watch
from spec_decode_exporter.simulator.ground_truth import target_settings
from spec_decode_exporter.simulator.scenario_library import load_scenario
from tests.conftest import settle
from tests.fixtures.simulated import Server


def observe_scenarios(network, clock, *scenarios, **more):
    """Do as the fixture ``observed`` does, where no event loop runs."""
    return asyncio.run(observe_on(network, clock, *scenarios, **more))


async def observe_on(network, clock, *scenarios, seconds=30, running=60, cost=True):
    targets = []
    for number, scenario in enumerate(scenarios):
        host = f"vllm-{number}:8000"
        known = {}
        if scenario is not None:
            network.servers[host] = Server(clock, scenario, running=running)
            known = target_settings(load_scenario(scenario)) if cost else {}
        targets.append({"url": host, **known})
    task = asyncio.ensure_future(watch(observed_config(targets, seconds), seconds, clock))
    await clock.advance(seconds)
    await settle(300)
    return task.result().view()


@pytest.fixture
def observed(network, clock):
    """Observe scenarios, each at a host of its own; a scenario of None is a host where nobody answers."""

    async def observe(*scenarios, **more):
        return await observe_on(network, clock, *scenarios, **more)

    return observe
