"""Simulated requests: their acceptance by position, and their records."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from tests.fakes.simulated_scenarios import SCENARIOS

MIX = [
    {"request_type": "chat", "temperature": 0, "share": 3},
    {"temperature": 1, "acceptance": {"mean": 0.2, "spread": 0.05}},
]


@settings(max_examples=15, deadline=None)
@given(SCENARIOS, st.integers(0, 2**32), st.sampled_from([(), MIX]))
def test_the_sums_over_all_requests_are_the_counters_of_the_server(keys, seed, mix):
    end = {"at": "5s", "load": {"concurrency": 0}}
    keys = {**keys, "load": {"concurrency": 6}, "phases": [end], "mix": mix}
    keys["speculation"]["tokens"] = max(1, keys["speculation"]["tokens"])
    answers = []
    simulation = Simulation(Scenario.model_validate(keys), seed, answers.append)
    simulation.advance(3000.0)
    counts = simulation.engines[0].counts
    found = [each["metrics"]["speculative_decoding"] for each in answers]
    assert len(answers) == sum(counts.finished.values()) > 0
    assert sum(each["num_spec_steps"] for each in found) == counts.drafts
    assert sum(each["num_draft_tokens"] for each in found) == counts.draft_tokens
    assert sum(each["num_accepted_draft_tokens"] for each in found) == counts.accepted_tokens
    lengths = map(sum, zip(*(each["acceptance_histogram"] for each in found), strict=True))
    assert list(lengths) == counts.accepted_lengths
    assert sum(each["usage"]["completion_tokens"] for each in answers) == counts.generation_tokens
    decoded = sum(each["metrics"]["generation_time_ms"] for each in answers)
    assert decoded == pytest.approx(1000 * counts.step.total)


def test_a_record_names_the_kind_of_its_request():
    keys = {"mix": MIX, "load": {"concurrency": 4}, "model_name": "m", "speculation": {"tokens": 0}}
    answers = []
    Simulation(Scenario.model_validate(keys), answered=answers.append).advance(60)
    kinds = {(each.get("request_type"), each.get("temperature")) for each in answers}
    assert kinds == {("chat", 0), (None, 1)}
    assert {each["model"] for each in answers} == {"m"}
    assert not any("speculative_decoding" in each["metrics"] for each in answers)
