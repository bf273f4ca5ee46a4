from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.scenario_library import load_scenario
from spec_decode_exporter.simulator.simulation import Simulation
from tests.simulator.test_simulated_engine import scenarios

MIX = [
    {"request_type": "chat", "temperature": 0, "share": 3},
    {"temperature": 1, "acceptance": {"mean": 0.2, "spread": 0.05}},
]


def answered(keys, seconds, seed=0):
    """Return the engine of a scenario after some seconds, and the records until then."""
    answers = []
    scenario = keys if isinstance(keys, Scenario) else Scenario.model_validate(keys)
    simulation = Simulation(scenario, seed, answers.append)
    simulation.advance(seconds)
    return simulation.life.engines[0], answers


def speculation(answers):
    return [each["metrics"]["speculative_decoding"] for each in answers]


def lengths_of(found):
    """Return the drafts of all requests, by accepted tokens."""
    return [sum(column) for column in zip(*(each["acceptance_histogram"] for each in found), strict=True)]


@settings(max_examples=30, deadline=None)
@given(scenarios, st.integers(0, 2**32), st.sampled_from([(), MIX]))
def test_the_sums_over_all_requests_are_the_counters_of_the_server(keys, seed, mix):
    keys = {
        **keys,
        "load": {"concurrency": 6},
        "phases": [{"at": "5s", "load": {"concurrency": 0}}],
        "mix": mix,
    }
    keys["speculation"]["tokens"] = max(1, keys["speculation"]["tokens"])
    engine, answers = answered(keys, 3000.0, seed)
    counts, found = engine.counts, speculation(answers)
    assert len(answers) == sum(counts.finished.values()) > 0
    assert sum(each["num_spec_steps"] for each in found) == counts.drafts
    assert sum(each["num_draft_tokens"] for each in found) == counts.draft_tokens
    assert sum(each["num_accepted_draft_tokens"] for each in found) == counts.accepted_tokens
    assert lengths_of(found) == counts.accepted_lengths
    assert sum(each["usage"]["completion_tokens"] for each in answers) == counts.generation_tokens
    decoded = sum(each["metrics"]["generation_time_ms"] for each in answers)
    assert decoded == pytest.approx(1000 * counts.decode.total)


def test_each_response_has_vllm_s_metrics():
    _, answers = answered({"speculation": {"tokens": 3}}, 20.0)
    for each in answers:
        found = each["metrics"]["speculative_decoding"]
        histogram = found["acceptance_histogram"]
        assert sum(histogram) == found["num_spec_steps"]
        accepted = sum(length * drafts for length, drafts in enumerate(histogram))
        assert accepted == found["num_accepted_draft_tokens"]
        assert found["num_spec_tokens"] == 3
        if found["num_spec_steps"]:
            assert found["mean_acceptance_length"] == 1 + accepted / found["num_spec_steps"]
            assert found["draft_acceptance_rate"] == accepted / found["num_draft_tokens"]


def test_without_speculation_a_response_has_no_speculation():
    _, answers = answered({"speculation": {"tokens": 0}}, 20.0)
    assert answers
    assert not any("speculative_decoding" in each["metrics"] for each in answers)


def test_a_request_has_the_labels_of_its_kind():
    _, answers = answered({"mix": MIX}, 60.0)
    kinds = {(each.get("request_type"), each.get("temperature")) for each in answers}
    assert kinds == {("chat", 0.0), (None, 1.0)}
    _, alike = answered({}, 20.0)
    assert not any("request_type" in each or "temperature" in each for each in alike)


def test_kinds_that_differ_only_in_names_change_no_number():
    named = {"mix": [{"request_type": "chat"}, {"request_type": "code", "temperature": 0}]}
    with_names, _ = answered(named, 60.0)
    without, _ = answered({}, 60.0)
    assert with_names.counts.accepted_lengths == without.counts.accepted_lengths
    assert with_names.counts.end_to_end.total == without.counts.end_to_end.total


def test_kinds_have_their_shares_and_their_own_acceptance():
    keys = {"mix": MIX, "speculation": {"tokens": 1}, "acceptance": {"mean": 0.8, "spread": 0.05}}
    _, answers = answered(keys, 900.0)
    chat = [each for each in answers if "request_type" in each]
    assert len(chat) / len(answers) == pytest.approx(0.75, abs=0.03)
    rates = [each["draft_acceptance_rate"] for each in speculation(chat)]
    others = [each["draft_acceptance_rate"] for each in speculation(a for a in answers if a not in chat)]
    assert sum(filter(None, rates)) / len(rates) == pytest.approx(0.8, abs=0.03)
    assert sum(filter(None, others)) / len(others) == pytest.approx(0.2, abs=0.03)


def test_a_phase_may_change_the_mix():
    phases = [{"at": "30s", "mix": [{"request_type": "code"}]}]
    _, answers = answered({"mix": MIX, "phases": phases, "outputs": {"mean": 20, "max": 40}}, 60.0)
    types = [each.get("request_type") for each in answers]
    assert types[0] != "code" == types[-1]


def test_mixed_has_a_healthy_average_and_one_kind_that_loses():
    scenario = load_scenario("mixed")
    engine, answers = answered(scenario, 600.0)
    known = [
        (each.get("request_type"), found) for each, found in zip(answers, speculation(answers), strict=True)
    ]
    rates = {}
    for kind, found in known:
        if found["num_draft_tokens"]:
            rates.setdefault(kind, []).append(found["draft_acceptance_rate"])
    means = {kind: sum(each) / len(each) for kind, each in rates.items()}
    counts, cost = engine.counts, scenario.speculation.cost
    assert means["creative"] == pytest.approx(0.38, abs=0.02)
    assert means["chat"] == pytest.approx(0.82, abs=0.02)
    assert means["creative"] < cost < counts.accepted_tokens / counts.draft_tokens
    assert means["extract"] == 1
    assert means[None] < 0.01
