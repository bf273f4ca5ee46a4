from __future__ import annotations

import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from spec_decode_exporter.simulator.rust_page import rust_page


@pytest.fixture
def rust(make_simulation):
    """A function that makes a simulation of a Rust front end with two engines."""

    def make(seconds, **keys):
        simulation = make_simulation(front_end="rust", engines=2, model_name="tiny-llama", **keys)
        simulation.advance(seconds)
        return simulation

    return make


def page(simulation):
    return rust_page(simulation).decode()


def test_prometheus_client_parses_the_page_as_openmetrics_with_the_counters(rust, sums):
    simulation = rust(60)
    families = {family.name: family for family in text_string_to_metric_families(page(simulation))}
    drafts = [sample.value for sample in families["vllm:spec_decode_num_drafts"].samples]
    assert drafts == [sums(engine).drafts for engine in simulation.life.engines]
    assert families["vllm:inter_token_latency_seconds"].type == "histogram"


def test_the_page_ends_with_the_eof_of_openmetrics(rust):
    text = page(rust(5))
    assert text.endswith("\n# EOF\n")
    assert text.count("# EOF") == 1


def test_the_model_name_comes_first_and_a_bound_before_it(rust):
    text = page(rust(60))
    assert re.search(
        r'^vllm:generation_tokens_total\{model_name="tiny-llama",engine="1"\} \d+$', text, re.MULTILINE
    )
    bucket = r'^vllm:inter_token_latency_seconds_bucket\{le="0\.05",model_name="tiny-llama",engine="0"\} \d+$'
    assert re.search(bucket, text, re.MULTILINE)
    position = r'^vllm:\S+_per_pos_total\{model_name="tiny-llama",engine="0",position="3"\} \d+$'
    assert re.search(position, text, re.MULTILINE)


def test_there_are_no_creation_times_and_no_process_families(rust):
    text = page(rust(60))
    assert "_created" not in text
    assert "process_" not in text


def test_positions_appear_with_the_first_draft_and_the_other_counters_before(rust):
    before, after = page(rust(0)), page(rust(10))
    assert 'vllm:spec_decode_num_drafts_total{model_name="tiny-llama",engine="0"} 0\n' in before
    assert "per_pos" not in before
    assert after.count("per_pos_total{") == 2 * 4


def test_without_speculation_the_scalar_counters_stay_at_0_and_there_are_no_positions(rust):
    text = page(rust(60, speculation={"tokens": 0}))
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        assert f'vllm:spec_decode_num_{name}_total{{model_name="tiny-llama",engine="0"}} 0\n' in text
    assert "per_pos" not in text


@pytest.mark.parametrize("late", [False, True])
def test_steps_are_published_with_their_tokens_unless_they_are_late(rust, sums, late):
    simulation = rust(5, outputs={"mean": 1000, "spread": 0}, late_steps=late)
    for engine in simulation.life.engines:
        found = sums(engine)
        assert found.generation - found.first_tokens > 100
        assert found.steps == (0 if late else found.generation - found.first_tokens - found.accepted)


def test_the_lines_are_those_of_the_recorded_page(make_simulation, recorded):
    simulation = make_simulation(front_end="rust", model_name="tiny")
    simulation.advance(60)
    described, series = lines(page(simulation)), lines(recorded("vllm-0.32.0-rust-k4.om"))
    # A recorded page has the reasons that ended a request, a simulated one all.
    assert all("finished_reason" in line for line in described - series)
    assert len(described) > 400


def lines(text):
    """Return the comments, and the series without their values."""
    return {line if line.startswith("#") else line.rpartition(" ")[0] for line in text.splitlines()}
