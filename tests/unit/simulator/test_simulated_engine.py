from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulated_engine import token_bounds
from spec_decode_exporter.simulator.simulation import Simulation
from tests.fakes.simulated_scenarios import SCENARIOS


@settings(max_examples=60, deadline=None)
@given(SCENARIOS, st.integers(0, 2**32), st.lists(st.floats(0.01, 5), min_size=1, max_size=6))
def test_the_identities_of_vllm_hold_at_every_moment(keys, seed, waits):
    simulation = Simulation(Scenario.model_validate(keys), seed)
    tokens = keys["speculation"]["tokens"]
    for wait in waits:
        simulation.advance(wait)
        counts = simulation.engines[0].counts
        by_position = counts.accepted_by_position
        assert sum(by_position) == counts.accepted_tokens <= counts.draft_tokens <= tokens * counts.drafts
        assert by_position == sorted(by_position, reverse=True)
        assert all(accepted <= counts.drafts for accepted in by_position)
        assert counts.drafts <= counts.step.count
        emitted = counts.generation_tokens - counts.first_token.count
        assert counts.step.count <= emitted <= counts.step.count + counts.accepted_tokens
        assert counts.cache_hits <= counts.cache_queries


@pytest.mark.parametrize(("largest", "last"), [(1024, 1000.0), (8192, 5000.0), (1, 1.0), (2000, 2000.0)])
def test_token_bounds_end_at_the_last_step_that_a_request_can_reach(largest, last):
    assert token_bounds(largest)[-1] == last


def test_token_bounds_are_those_of_the_recorded_page(recorded):
    page = recorded("vllm-0.32.0-python-ngram-k4.prom")
    bounds = re.findall(r'^vllm:request_prompt_tokens_bucket\{engine="0",le="([0-9.]+)"', page, re.MULTILINE)
    assert [str(bound) for bound in token_bounds(1024)] == bounds
