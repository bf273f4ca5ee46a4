from __future__ import annotations

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
