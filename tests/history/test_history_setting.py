"""Draft tokens by load that would have been best, over a history."""

from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fixtures.scenarios import speedup
from tests.fixtures.simulated_history import StoredHistory
from tests.history.conftest import read_history

SATURATED = {"saturation": 100}
"""A machine whose steps are longer from 100 tokens on: there drafts do not pay at a high load."""


def server(tokens, load):
    speculation = {"tokens": tokens, "method": "draft_model"}
    return {"speculation": speculation, "load": {"concurrency": load}, "machine": SATURATED}


async def setting(*phases, seconds=2400, load=4):
    stored = StoredHistory()
    scenario = Scenario.model_validate({**server(0, load), "phases": list(phases)})
    stored.simulate(scenario, seconds, 15, job="vllm", instance="a:8000")
    (engine,) = (await read_history(stored)).engines
    return engine.setting


def fewest(load):
    """Return the fewest tokens within 3 % of the best by the simulator's truth, and the speed-up of four."""
    exact = {
        tokens: speedup(Scenario.model_validate(server(tokens, load)), 120, 500) for tokens in (1, 2, 3, 4)
    }
    enough = 0.97 * max(1.0, *exact.values())
    return next(tokens for tokens, value in exact.items() if value >= enough), exact[4]


@pytest.mark.slow
async def test_the_tokens_by_load_are_those_of_the_simulators_truth():
    found = await setting(
        {"at": "10m", "load": {"concurrency": 64}},
        {"at": "20m", "restart": {"down": "20s", "tokens": 4}, "load": {"concurrency": 4}},
        {"at": "30m", "load": {"concurrency": 64}},
    )
    assert found.loads == pytest.approx((4, 64), abs=1)
    assert found.setting.source is CostSource.BASELINE
    for load, band in ((4, found.setting.bands[0]), (64, found.setting.bands[-1])):
        tokens, exact = fewest(load)
        assert band.tokens == tokens
        assert band.present_speedup_ratio == pytest.approx(exact, rel=0.15)


async def test_with_the_cost_at_one_load_it_is_unknown():
    found = await setting({"at": "10m", "restart": {"down": "20s", "tokens": 3}}, seconds=1500)
    assert found.setting is None
    assert found.loads == (pytest.approx(4, abs=1),)


async def test_without_drafts_there_is_none():
    assert await setting(seconds=600) is None
