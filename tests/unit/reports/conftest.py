"""Observations of simulated servers with a manual clock."""

from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.reports.observation import observed_config, watch
from tests.conftest import settle
from tests.fakes.scenarios import scenario as load_scenario
from tests.fakes.simulated import Server


def observe_scenarios(network, clock, *scenarios, **more):
    """Run the fixture ``observed`` without an event loop."""
    return asyncio.run(observe_on(network, clock, *scenarios, **more))


async def observe_on(network, clock, *scenarios, seconds=30, running=60, cost=True):
    targets = []
    for number, scenario in enumerate(scenarios):
        host = f"vllm-{number}:8000"
        known = {}
        if scenario is not None:
            network.servers[host] = Server(clock, scenario, running=running)
            known = load_scenario(scenario).target_settings() if cost else {}
        targets.append({"url": host, **known})
    task = asyncio.ensure_future(watch(observed_config(targets, seconds), seconds, clock))
    await clock.advance(seconds)
    await settle(300)
    return task.result().view()


@pytest.fixture
def observed(network, clock):
    """Observe scenarios, each on its own host; a scenario of None is an unreachable host."""

    async def observe(*scenarios, **more):
        return await observe_on(network, clock, *scenarios, **more)

    return observe
