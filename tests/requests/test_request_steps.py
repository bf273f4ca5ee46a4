"""Decode steps of a request: simulated step by step, and of recorded responses of vLLM."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.request_steps import decode_steps, decoded_tokens

RESPONSES = Path(__file__).parents[1] / "traces" / "restart_k3_k5.responses.jsonl.gz"


def tokens_and_steps(drafts, accepted, tokens, answer_tokens):
    decoded = decoded_tokens(drafts, accepted, tokens, answer_tokens)
    return decoded, *decode_steps([decoded], [drafts], [accepted])


def decode(generator, answer_tokens, tokens, coverage, acceptance):
    """Decode an answer step by step; return (D, A, S)."""
    drafts = accepted = steps = 0
    left = answer_tokens - 1
    while left > 0:
        steps += 1
        here = 0
        if generator.random() < coverage:
            drafts += 1
            here = next((place for place in range(tokens) if generator.random() >= acceptance), tokens)
            accepted += here
        left -= 1 + here
    return drafts, accepted, steps


@given(
    st.integers(0, 2**32),
    st.integers(2, 400),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    st.sampled_from([0.0, 0.2, 0.8, 1.0]),
)
def test_the_steps_are_those_of_a_decoded_answer(seed, answer_tokens, tokens, coverage, acceptance):
    drafts, accepted, steps = decode(random.Random(seed), answer_tokens, tokens, coverage, acceptance)
    found_tokens, found_steps = tokens_and_steps(drafts, accepted, tokens, answer_tokens)
    assert found_tokens == answer_tokens - 1
    # At most K tokens are accepted beyond the end of an answer.
    assert steps - tokens <= found_steps <= steps
    if coverage == 1.0:
        assert found_steps == steps


@pytest.mark.parametrize("answer_tokens", [None, 0, 1, 4, 1000])
def test_an_unknown_or_contradictory_length_counts_every_step_as_one_that_drafts(answer_tokens):
    # 10 drafts gave at least 10 tokens, and at most 4 of 30 accepted ones are beyond the end.
    expected = (999, 969) if answer_tokens == 1000 else (40, 10)
    assert tokens_and_steps(10, 30, 4, answer_tokens) == expected


@pytest.mark.parametrize(("answer_tokens", "expected"), [(36, (40, 10)), (37, (36, 10)), (41, (40, 10))])
def test_at_most_k_tokens_are_beyond_the_end(answer_tokens, expected):
    assert tokens_and_steps(10, 30, 4, answer_tokens) == expected


def test_a_request_without_drafts_took_a_step_for_each_token():
    assert tokens_and_steps(0, 0, 4, 50) == (49, 49)
    assert tokens_and_steps(0, 0, 4, None) == (0, 0)


def test_every_step_of_a_recorded_draft_model_drafted():
    lines = map(json.loads, gzip.decompress(RESPONSES.read_bytes()).splitlines())
    responses = [line for line in lines if line.get("num_spec_steps")]
    assert len(responses) > 200
    for each in responses:
        counts = (each["num_spec_steps"], each["num_accepted_draft_tokens"], each["num_spec_tokens"])
        found = tokens_and_steps(*counts, each["completion_tokens"])
        assert found == (each["completion_tokens"] - 1, each["num_spec_steps"])
