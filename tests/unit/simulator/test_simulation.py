from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import load_scenario, scenario_names
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page


def test_the_seed_decides_the_page(make_simulation):
    pages = []
    for seed in (7, 7, 8):
        simulation = make_simulation(seed=seed)
        simulation.advance(40)
        pages.append(metrics_page(simulation))
    assert pages[0] == pages[1] != pages[2]


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.integers(1, 240), min_size=1, max_size=5), st.sampled_from(["drop", "restart", "overload"])
)
def test_the_result_does_not_depend_on_the_time_steps(quarters, name):
    """Quarters of a second add up without rounding."""
    scenario = load_scenario(name)
    pieces, whole = Simulation(scenario), Simulation(scenario)
    for quarter in quarters:
        pieces.advance(quarter / 4)
    whole.advance(sum(quarters) / 4)
    assert metrics_page(pieces) == metrics_page(whole)


def test_an_hour_of_16_clients_takes_seconds(make_simulation):
    simulation = make_simulation()
    began = time.process_time()
    simulation.advance(3600)
    assert time.process_time() - began < 30


RESTARTING = [{"at": "30s", "restart": {"down": "10s", "tokens": 6}}]


@pytest.mark.parametrize(("restart", "tokens"), [({"tokens": 6}, 6), ({}, 5)])
def test_a_restart_takes_the_server_down_and_brings_it_back_with_new_counters(
    make_simulation, restart, tokens
):
    phases = [{"at": "30s", "restart": {"down": "10s", **restart}}]
    simulation = make_simulation(speculation={"tokens": 5}, phases=phases, repeat="60s")
    serving = []
    for wait in (29.75, 0.25, 9.75, 0.25):
        simulation.advance(wait)
        serving.append(simulation.serving)
    assert serving == [True, False, False, True]
    counts = simulation.engines[0].counts
    assert (counts.drafts, counts.generation_tokens, counts.first_token.count) == (0, 0, 0)
    assert (simulation.process_began, simulation.began, simulation.tokens) == (30, 40, tokens)
    simulation.advance(15)
    assert counts.drafts > 0
    simulation.advance(545)
    assert simulation.restarts == 10


def test_a_change_reaches_the_requests_that_arrive_after_it(make_simulation):
    simulation = make_simulation(
        acceptance={"mean": 0.9, "spread": 0}, phases=[{"at": "60s", "acceptance": {"mean": 0.1}}]
    )
    found = [(0, 0)]
    for _ in range(3):
        simulation.advance(60)
        counts = simulation.engines[0].counts
        found.append((counts.drafts, counts.accepted_tokens))
    good, turning, bad = (1 + (b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(found))
    assert bad < turning < good > 3.5
    assert bad == pytest.approx(1.11, abs=0.05)


def test_engines_are_independent_and_share_the_load(make_simulation):
    simulation = make_simulation(engines=2, load={"rate": 6})
    simulation.advance(120)
    first, second = (engine.counts for engine in simulation.engines)
    assert first.drafts != second.drafts
    assert first.first_token.count + second.first_token.count == pytest.approx(720, rel=0.15)


def test_a_phase_may_begin_at_the_moment_a_restart_ends(make_simulation):
    simulation = make_simulation(
        phases=[*RESTARTING, {"at": "40s", "load": {"concurrency": 0}}],
    )
    simulation.advance(300)
    assert simulation.engines[0].running == 0


def test_each_included_scenario_generates_tokens():
    for name in scenario_names():
        simulation = Simulation(load_scenario(name))
        simulation.advance(100)
        assert simulation.engines[0].counts.generation_tokens, name
