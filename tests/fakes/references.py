"""Observations of simulated servers, each made once for all tests."""

import asyncio
from functools import cache

import pytest

from spec_decode_exporter.reports.observation import Observation, check_complete, observed_config, watch
from spec_decode_exporter.reports.saved_snapshot import SavedSnapshot
from tests.conftest import PAGES_AT_ONCE, FakeClock, settle
from tests.fakes.scenarios import scenario as load_scenario
from tests.fakes.simulated import Network, Server


def changed(**acceptance):
    """Return the scenario steady with another acceptance, K or load."""
    steady = load_scenario("steady")
    parts = {name: getattr(steady, name) for name in acceptance}
    return steady.model_copy(
        update={
            name: part.model_copy(update=acceptance[name]) if isinstance(acceptance[name], dict) else acceptance[name]
            for name, part in parts.items()
        }
    )  # fmt: skip


async def take(config, seconds, clock):
    """Measure the targets of a configuration, as `observe --save` does."""
    observation = Observation(config, clock)
    try:
        await observation.poll(clock.sleep_until(clock.monotonic() + seconds), needs_all=True)
        observed = observation.observed()
        check_complete(observed)
        return observed
    finally:
        await observation.close()


SERVERS = {
    "steady": {"a": ("steady", 1)},
    "again": {"b": ("steady", 2)},
    "worse": {"a": (changed(acceptance={"mean": 0.6}), 3)},
    "a little worse": {"a": (changed(acceptance={"mean": 0.73}), 4)},
    "longer": {"a": (changed(speculation={"tokens": 6}), 5)},
    "busier": {"a": (changed(load={"concurrency": 32}), 6)},
    "two": {"a": ("steady", 7), "b": ("steady", 8)},
    "one of two": {"a": ("steady", 9), "b": (changed(acceptance={"mean": 0.6}), 10)},
    "other work": {"a": (changed(outputs={"mean": 60.0}), 11)},
}


def apart(servers, clock, seconds, work):
    """Run a coroutine with simulated servers, by host and port, for some seconds of their clock."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        network = Network(servers)
        patch.setattr("spec_decode_exporter.monitor.target_monitor.Client", lambda *_, **__: network)
        patch.setattr("spec_decode_exporter.scrape.poller.PAGES", PAGES_AT_ONCE)
        task = runner.get_loop().create_task(work)
        runner.run(clock.advance(seconds))
        runner.run(settle(300))
        return task.result()


@cache
def measured(name):
    """Observe the servers of this name, which have been running for a minute, for five; return the document."""
    clock, seconds, names = FakeClock(), 300, SERVERS[name]
    servers = {
        f"{each}:1": Server(clock, scenario, running=60, seed=seed)
        for each, (scenario, seed) in names.items()
    }
    config = observed_config([{"url": f"http://{each}:1", "name": each} for each in names], seconds)
    return apart(servers, clock, seconds, take(config, seconds, clock))


@cache
def saved(name):
    """Return the same as it is read back."""
    return SavedSnapshot.model_validate(measured(name))


@cache
def observation(*scenarios, seconds=30, running=60, cost=True):
    """Observe scenarios, each on its own host; a scenario of None is an unreachable host."""
    clock, servers, targets = FakeClock(), {}, []
    for number, name in enumerate(scenarios):
        host = f"vllm-{number}:8000"
        known = {}
        if name is not None:
            servers[host] = Server(clock, name, running=running)
            known = load_scenario(name).target_settings() if cost else {}
        targets.append({"url": host, **known})
    return apart(servers, clock, seconds, watch(observed_config(targets, seconds), seconds, clock))
