"""A simulated server: its seed and time steps, restarts, phases and engines."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import INCLUDED, load_scenario
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.vllm_page import metrics_page
from tests.every import every
from tests.unit.simulator.conftest import make_simulation


def test_the_seed_decides_the_page():
    pages = []
    for seed in (7, 7, 8):
        simulation = make_simulation(seed=seed)
        simulation.advance(20)
        pages.append(metrics_page(simulation))
    assert pages[0] == pages[1] != pages[2]


@settings(max_examples=3, deadline=None)
@given(st.lists(st.integers(1, 240), min_size=1, max_size=5), st.sampled_from(["restart", "overload"]))
def test_the_result_does_not_depend_on_the_time_steps(quarters, name):
    """Quarters of a second add up without rounding."""
    scenario = load_scenario(name)
    pieces, whole = Simulation(scenario), Simulation(scenario)
    for quarter in quarters:
        pieces.advance(quarter / 4)
    whole.advance(sum(quarters) / 4)
    assert metrics_page(pieces) == metrics_page(whole)


@pytest.mark.parametrize(
    ("restart", "tokens", "drafts"),
    [({"tokens": 6}, 6, True), ({}, 5, True), ({"tokens_per_batch_size": [[1, 64, 0]]}, 5, False)],
)
def test_a_restart_takes_the_server_down_and_brings_it_back_with_new_counters(restart, tokens, drafts):
    phases = [{"at": "30s", "restart": {"down": "10s", **restart}}]
    simulation = make_simulation(speculation={"tokens": 5}, phases=phases, repeat="60s")
    serving = []
    for wait in (29.75, 0.25, 9.75, 0.25):
        simulation.advance(wait)
        serving.append(simulation.serving)
    assert serving == [True, False, False, True]
    counts = simulation.engines[0].counts
    assert (counts.drafts, counts.generation_tokens, counts.first_token.count) == (0, 0, 0)
    assert (simulation.process_began, simulation.began, simulation.speculation.tokens) == (30, 40, tokens)
    simulation.advance(15)
    assert (counts.drafts > 0) is drafts
    simulation.advance(125)
    assert simulation.restarts == 3


def test_a_change_reaches_the_requests_that_arrive_after_it():
    phases = [{"at": "60s", "acceptance": {"mean": 0.1}}]
    simulation = make_simulation(acceptance={"mean": 0.9, "spread": 0}, phases=phases)
    found = [(0, 0)]
    for _ in range(3):
        simulation.advance(60)
        counts = simulation.engines[0].counts
        found.append((counts.drafts, counts.accepted_tokens))
    good, turning, bad = (1 + (b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(found))
    assert bad < turning < good > 3.5
    assert bad == pytest.approx(1.11, abs=0.05)


@every([*INCLUDED])
def test_each_included_scenario_generates_tokens(name):
    simulation = Simulation(load_scenario(name))
    simulation.advance(65 if name == "idle" else 15)
    assert simulation.engines[0].counts.generation_tokens
