from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation

CROWDED = {
    "kv_tokens": 1100,
    "max_model_len": 1000,
    "max_requests": 12,
    "saturation": 16,
    "max_batched_tokens": 600,
}

scenarios = st.fixed_dictionaries(
    {
        "speculation": st.fixed_dictionaries(
            {"method": st.sampled_from(["draft_model", "ngram"]), "tokens": st.integers(0, 8)}
        ),
        "acceptance": st.fixed_dictionaries({"mean": st.floats(0, 1), "spread": st.floats(0, 1)}),
        "load": st.one_of(
            st.fixed_dictionaries({"concurrency": st.integers(0, 20)}),
            st.fixed_dictionaries({"rate": st.floats(0, 20)}),
        ),
        "prompts": st.fixed_dictionaries({"mean": st.floats(1, 900), "max": st.integers(1, 2000)}),
        "outputs": st.fixed_dictionaries({"mean": st.floats(1, 200), "max": st.integers(1, 300)}),
        "machine": st.sampled_from([{}, CROWDED]),
    }
)


def only_engine(keys, seed=0, seconds=30.0):
    simulation = Simulation(Scenario.model_validate(keys), seed)
    simulation.advance(seconds)
    return simulation.life.engines[0]


@settings(max_examples=60, deadline=None)
@given(scenarios, st.integers(0, 2**32), st.lists(st.floats(0.01, 5), min_size=1, max_size=6))
def test_the_identities_of_vllm_hold_at_every_moment(keys, seed, waits):
    simulation = Simulation(Scenario.model_validate(keys), seed)
    tokens = keys["speculation"]["tokens"]
    for wait in waits:
        simulation.advance(wait)
        counts = simulation.life.engines[0].counts
        by_position = counts.accepted_by_position
        assert sum(by_position) == counts.accepted_tokens <= counts.draft_tokens <= tokens * counts.drafts
        assert by_position == sorted(by_position, reverse=True)
        assert all(accepted <= counts.drafts for accepted in by_position)
        assert counts.drafts <= counts.step.count
        emitted = counts.generation_tokens - counts.first_token.count
        assert counts.step.count <= emitted <= counts.step.count + counts.accepted_tokens
        assert counts.prompt_tokens == counts.computed_prompt_tokens + counts.cached_prompt_tokens


@settings(max_examples=60, deadline=None)
@given(scenarios, st.integers(0, 2**32))
def test_no_request_is_lost_and_none_counted_twice(keys, seed):
    engine = only_engine(keys, seed)
    counts = engine.counts
    finished = sum(counts.finished.values())
    for histogram in (counts.end_to_end, counts.queue, counts.decode, counts.prompt_length, counts.samples):
        assert histogram.count == finished
    assert finished <= counts.first_token.count <= finished + engine.running + engine.waiting
    assert 0 <= engine.kv_usage <= 1
    assert engine.running <= keys["machine"].get("max_requests", 64)


@settings(max_examples=30, deadline=None)
@given(scenarios, st.integers(0, 2**32))
def test_every_generated_token_belongs_to_a_request(keys, seed):
    """After the last client, the sums over the requests equal the sums over the steps."""
    keys = {**keys, "load": {"concurrency": 6}, "phases": [{"at": "5s", "load": {"concurrency": 0}}]}
    engine = only_engine(keys, seed, seconds=3000.0)
    counts = engine.counts
    assert (engine.running, engine.waiting, engine.kv_usage) == (0, 0, 0)
    assert counts.output_length.total == counts.generation_tokens
    assert counts.prompt_length.total == counts.prompt_tokens
    assert counts.decode.total == pytest.approx(counts.step.total)
    assert counts.inference.total == pytest.approx(counts.prefill.total + counts.decode.total)
    assert counts.end_to_end.total == pytest.approx(counts.queue.total + counts.inference.total)
    assert counts.first_token.total == pytest.approx(counts.queue.total + counts.prefill.total)
    assert counts.request_preemptions.total == counts.preemptions


def test_a_draft_model_drafts_all_tokens_at_every_step(sums):
    found = sums(only_engine({"speculation": {"tokens": 3}}))
    assert found.drafts == found.steps > 0
    assert found.draft_tokens == 3 * found.drafts


def test_ngram_drafts_at_some_steps_and_often_less_than_all_tokens(sums):
    found = sums(
        only_engine({"speculation": {"method": "ngram", "tokens": 4, "coverage": 0.5}}, seconds=120.0)
    )
    assert found.drafts / found.steps == pytest.approx(0.5, abs=0.02)
    assert 2 < found.draft_tokens / found.drafts < 4


def test_without_draft_tokens_each_step_gives_one_token(sums):
    found = sums(only_engine({"speculation": {"tokens": 0}}))
    assert (found.drafts, found.draft_tokens, found.accepted, found.by_position) == (0, 0, 0, [])
    assert found.generation - found.first_tokens == found.steps > 0


@pytest.mark.parametrize(("clients", "tokens"), [(6, 4), (7, 2), (9, 2), (10, 0)])
def test_a_schedule_sets_the_draft_length_by_batch_size(sums, clients, tokens):
    schedule = [[1, 6, 4], [7, 9, 2], [10, 64, 0]]
    speculation = {"tokens": 4, "tokens_per_batch_size": schedule}
    # All clients arrive at the same moment, and the test reads only steps with all of them.
    load, outputs = {"concurrency": clients}, {"mean": 1000, "max": 1000, "spread": 0}
    engine = only_engine({"speculation": speculation, "load": load, "outputs": outputs}, seconds=4.0)
    found = sums(engine)
    assert (engine.running, engine.waiting) == (clients, 0)
    assert found.draft_tokens == tokens * found.steps
    assert len(found.by_position) == 4


def test_the_acceptance_of_positions_is_that_of_the_scenario(sums):
    acceptance = {"mean": 0.8, "spread": 0, "decay": 0.9}
    found = sums(only_engine({"acceptance": acceptance, "speculation": {"tokens": 3}}, seconds=300.0))
    shares = [accepted / found.drafts for accepted in found.by_position]
    assert shares == pytest.approx([0.8, 0.8 * 0.72, 0.8 * 0.72 * 0.648], abs=0.01)


def test_more_accepted_tokens_make_steps_no_slower_and_answers_faster(sums):
    poor, good = (
        only_engine({"acceptance": {"mean": mean, "spread": 0}}, seconds=120.0) for mean in (0.2, 0.9)
    )
    assert (
        good.counts.step.total / good.counts.step.count
        < 1.2 * poor.counts.step.total / poor.counts.step.count
    )
    assert sums(good).generation > 1.8 * sums(poor).generation


def test_verification_costs_time_only_beyond_the_memory_bound():
    def step_time(tokens, saturation):
        speculation = {"method": "ngram", "tokens": tokens, "coverage": 1, "whole": 1}
        prompts = {"mean": 1, "max": 1}
        machine = {"saturation": saturation, "jitter": 0}
        engine = only_engine({"speculation": speculation, "prompts": prompts, "machine": machine})
        return engine.counts.step.total / engine.counts.step.count

    assert step_time(4, saturation=1000) == pytest.approx(step_time(0, saturation=1000))
    assert step_time(4, saturation=16) == pytest.approx(5 * step_time(0, saturation=16), rel=0.05)


def test_a_full_cache_preempts_and_every_request_still_ends():
    keys = {
        "machine": CROWDED,
        "load": {"concurrency": 10},
        "prompts": {"mean": 100, "max": 200},
        "outputs": {"mean": 200, "max": 400},
        "phases": [{"at": "1m", "load": {"concurrency": 0}}],
    }
    engine = only_engine(keys, seconds=600.0)
    assert engine.counts.preemptions > 10
    assert engine.running == engine.waiting == 0
    assert engine.counts.request_preemptions.total == engine.counts.preemptions


def test_a_prompt_longer_than_a_step_is_computed_in_several():
    keys = {
        "machine": CROWDED,
        "load": {"concurrency": 1},
        "prompts": {"mean": 900, "max": 900, "spread": 0, "cached": 0},
    }
    counts = only_engine(keys).counts
    assert counts.iteration_tokens.count > counts.step.count + counts.first_token.count
    assert counts.iteration_tokens.total >= counts.generation_tokens + counts.prompt_tokens


def test_an_answer_that_reaches_its_limit_ends_by_length_and_another_by_stop():
    by_length = only_engine({"outputs": {"mean": 50, "spread": 0, "max": 50}}).counts.finished
    by_stop = only_engine({"outputs": {"mean": 50, "spread": 0, "max": 500}}).counts.finished
    assert by_length["length"] > 0 == by_length["stop"]
    assert by_stop["stop"] > 0 == by_stop["length"]


def test_too_many_requests_wait_in_the_queue():
    engine = only_engine({"load": {"rate": 50}, "machine": CROWDED}, seconds=60.0)
    assert engine.waiting > 100
    assert engine.counts.queue.total / engine.counts.queue.count > 1
