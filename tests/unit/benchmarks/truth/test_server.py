"""The step-time model has the limits and the monotony of a real server."""

from dataclasses import replace

import pytest

from benchmarks.truth.models import DENSE_8B, H100, H200, TARGETS, Efficiency
from benchmarks.truth.server import Host, Server, padded_tokens

EFFICIENCY = Efficiency(0.75, 0.6, 4.0)
HOST = Host(1e-3, 8e-6, is_plain_overlapped=True, is_drafting_overlapped=True)


def server_of(target, drafter=None, *, tokens=4, context=1000.0, gpu=H200, host=HOST):
    return Server(target, drafter or target.drafters[0], tokens, gpu, EFFICIENCY, host, 0.35, context)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_step_takes_longer_with_more_requests_and_with_more_context(target):
    server = server_of(target)
    times = [server.plain_seconds(requests) for requests in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)]
    assert times == sorted(times)
    assert replace(server, context=8000.0).plain_seconds(64) > server.plain_seconds(64)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_step_that_drafts_takes_longer_than_a_plain_one_and_longer_with_more_tokens(target):
    for drafter in target.drafters:
        servers = [server_of(target, drafter, tokens=tokens) for tokens in (1, 2, 4, 8)]
        costs = [
            server.drafting_seconds(8, 8 * server.tokens) / server.plain_seconds(8) for server in servers
        ]
        assert costs[0] > 1
        assert costs == sorted(costs), drafter.name


def test_a_published_decode_time_is_reproduced():
    # Llama-3.1-8B alone on an H100: 133 tokens per second (vLLM pull request 16937, April 2025).
    assert 1 / server_of(DENSE_8B, gpu=H100).plain_seconds(1) == pytest.approx(133, rel=0.15)


@pytest.mark.parametrize(
    ("tokens", "multiple", "padded"),
    [(1, 1, 1), (3, 1, 4), (9, 1, 16), (257, 1, 272), (9, 5, 20), (600, 5, 600)],
)
def test_a_batch_is_padded_to_the_next_captured_size(tokens, multiple, padded):
    assert padded_tokens(tokens, multiple) == (padded, tokens <= 512)
