"""A draft model computes the prompt too: the first token of a long one comes later, and the exporter says so.

The exporter learns the time to first token without speculation, ends, and continues from its state file when
the server has come back with a draft model.
"""

from __future__ import annotations

import random

import pytest
from clients import send, send_until
from vllm_server import QUIET, draft_model, vllm
from watch import COST, REQUEST_SPEEDUP, bounds, learned, said, watch

from tests.e2e.conftest import free_port

VOCABULARY = range(2, 512)  # token ids of the models without the special ones
PROMPT = 1500  # Tokens; none of them is in the prefix cache
LONGER_CONTEXT = ("--max-model-len", "2048")
KNOWN_COST = {"draft_cost_ratio": 0.55}
"""Ratio of the parameters of both models; the learned baseline precedes it."""
WINDOW = "1m"
LEARNING_SECONDS = 65.0
LATER = 1.15  # the draft model has half of the target's layers
HAS_BOUNDS = {COST: {}, f"{REQUEST_SPEEDUP}_lower": {"window": WINDOW}}


def rounds(seed):
    """Make rounds of one client's requests with prompts that no request had before, and short answers."""
    chance = random.Random(seed)
    return [
        [[{"prompt": chance.choices(VOCABULARY, k=PROMPT), "max_tokens": 8} for _ in range(40)]]
        for _ in range(100)
    ]


def test_a_draft_model_delays_the_first_token_of_a_long_prompt_and_the_exporter_says_so(tmp_path, remark):
    port = free_port()
    state = {"file": str(tmp_path / "state.json")}
    learning = {"window": WINDOW, "state": state, "cost": KNOWN_COST}
    with vllm("prompts-plain", *QUIET, *LONGER_CONTEXT, port=port) as server:
        send(server.url, rounds(0)[0])
        with watch("prompts-plain", server.url, **learning) as watching:
            plain = send_until(lambda: learned(watching, LEARNING_SECONDS), server.url, rounds(1))
            watching.settled()
    with vllm("prompts-drafting", *QUIET, *LONGER_CONTEXT, *draft_model(4), port=port) as server:
        send(server.url, rounds(2)[0])
        with watch("prompts-drafting", server.url, **learning) as watching:
            drafting = send_until(lambda: watching.shows(HAS_BOUNDS), server.url, rounds(3))
            page = watching.settled()
            [engine] = watching.api("snapshot")["engines"]
            before = engine["baseline"]["time_to_first_token_seconds"]
    after = page.sum("spec_decode_time_to_first_token_seconds", window=WINDOW)
    truth = plain.per_request / drafting.per_request
    remark(f"prompts of {PROMPT} tokens, K = 0: {plain}")
    remark(f"prompts of {PROMPT} tokens, K = 4: {drafting}")
    remark(f"exporter: first token {before * 1000:.1f} ms, then {after * 1000:.1f} ms; {said(page)}")
    remark(f"truth: {truth:.3f} a request")
    assert after / before == pytest.approx(drafting.to_first_token / plain.to_first_token, rel=0.15)
    assert after > LATER * before
    low, _, high = bounds(page, REQUEST_SPEEDUP, WINDOW, basis="baseline")
    assert low <= truth <= high
