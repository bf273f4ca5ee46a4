from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.simulator.python_page import python_page
from spec_decode_exporter.simulator.scenario_library import load_scenario, scenario_names
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.simulator.unix_time import UnixTime


def page(simulation):
    return python_page(simulation, UnixTime())


def test_the_same_seed_gives_the_same_page(make_simulation):
    pages = set()
    for _ in range(2):
        simulation = make_simulation(seed=7)
        simulation.advance(40)
        pages.add(page(simulation))
    assert len(pages) == 1


def test_another_seed_gives_another_page(make_simulation):
    first, second = make_simulation(seed=1), make_simulation(seed=2)
    first.advance(40)
    second.advance(40)
    assert page(first) != page(second)


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
    assert page(pieces) == page(whole)


def test_an_hour_of_16_clients_takes_seconds(make_simulation):
    simulation = make_simulation()
    began = time.process_time()
    simulation.advance(3600)
    assert time.process_time() - began < 30


def test_a_change_reaches_the_requests_that_arrive_after_it(make_simulation, sums):
    simulation = make_simulation(
        acceptance={"mean": 0.9, "spread": 0}, phases=[{"at": "60s", "acceptance": {"mean": 0.1}}]
    )
    lengths = []
    before = None
    for wait in (60, 60, 60):
        simulation.advance(wait)
        now = sums(simulation.life.engines[0])
        drafts, accepted = (
            (now.drafts, now.accepted)
            if before is None
            else (now.drafts - before.drafts, now.accepted - before.accepted)
        )
        lengths.append(1 + accepted / drafts)
        before = now
    good, turning, bad = lengths
    assert good > 3.5
    assert bad < turning < good
    assert bad == pytest.approx(1.11, abs=0.05)


RESTARTING = [{"at": "30s", "restart": {"down": "10s", "tokens": 6}}]


def test_a_restart_takes_the_server_down_and_brings_it_back_with_another_k(make_simulation):
    simulation = make_simulation(phases=RESTARTING)
    simulation.advance(29.75)
    assert simulation.serving
    simulation.advance(0.25)
    assert not simulation.serving
    simulation.advance(9.75)
    assert not simulation.serving
    simulation.advance(0.25)
    assert simulation.serving
    assert simulation.life.tokens == 6


def test_after_a_restart_all_counters_begin_at_0_and_their_creation_is_new(make_simulation, sums):
    simulation = make_simulation(phases=RESTARTING)
    simulation.advance(40)
    found = sums(simulation.life.engines[0])
    assert (found.drafts, found.generation, found.first_tokens) == (0, 0, 0)
    assert (simulation.life.process_began, simulation.life.began) == (30, 40)
    simulation.advance(20)
    assert sums(simulation.life.engines[0]).drafts > 0


def test_a_restart_without_a_number_of_tokens_keeps_it(make_simulation):
    simulation = make_simulation(
        speculation={"tokens": 5}, phases=[{"at": "30s", "restart": {"down": "10s"}}]
    )
    simulation.advance(60)
    assert (simulation.life.number, simulation.life.tokens) == (1, 5)


def test_a_repeating_scenario_restarts_again_and_again(make_simulation):
    simulation = make_simulation(phases=[{"at": "30s", "restart": {"down": "10s"}}], repeat="60s")
    simulation.advance(600)
    assert simulation.life.number == 10


def test_a_phase_may_begin_at_the_moment_a_restart_ends(make_simulation):
    simulation = make_simulation(
        phases=[*RESTARTING, {"at": "40s", "load": {"concurrency": 0}}],
    )
    simulation.advance(300)
    assert simulation.life.engines[0].running == 0


def test_engines_are_independent_and_share_the_load(make_simulation, sums):
    simulation = make_simulation(engines=2, load={"rate": 6})
    simulation.advance(120)
    first, second = map(sums, simulation.life.engines)
    assert first != second
    assert first.first_tokens + second.first_tokens == pytest.approx(720, rel=0.15)


def test_the_included_scenarios_run():
    for name in scenario_names():
        simulation = Simulation(load_scenario(name))
        simulation.advance(130)
        assert simulation.now == 130, name
