"""Traffic has the counters of a real server, and its means are those of the distributions."""

from random import Random

import pytest

from benchmarks.truth.models import DENSE_8B, H100, NGRAM, Efficiency
from benchmarks.truth.server import Host, Server
from benchmarks.truth.traffic import COUNTERS, Mix, Traffic, population

HOST = Host(1e-3, 8e-6, is_plain_overlapped=True, is_drafting_overlapped=True)
MIX = Mix(0.7, 0.1, prompt_tokens=200, hit_ratio=0.5)
STEP = 0.02


def server_of(drafter=None, tokens=4):
    efficiency = Efficiency(0.75, 0.6, 4.0)
    return Server(DENSE_8B, drafter or DENSE_8B.drafters[1], tokens, H100, efficiency, HOST, 0.35, 1000.0)


def polls_of(mix=MIX, *, places=4, seconds=100, server=None):
    traffic = Traffic(Random(1), server or server_of(), mix, places)
    return list(traffic.seconds(seconds, STEP))


def test_counters_never_decrease_and_keep_the_identities_of_the_server():
    before = None
    for counts in polls_of(Mix(0.6, 0.15, 0.5), server=server_of(NGRAM)):
        assert sum(counts.positions) == counts.accepted_tokens <= counts.draft_tokens
        assert counts.positions == sorted(counts.positions, reverse=True)
        assert counts.positions[0] <= counts.drafts <= counts.decode_steps
        assert counts.draft_tokens <= 4 * counts.drafts
        decoded = counts.generation_tokens - counts.first_tokens
        assert counts.decode_steps <= decoded <= counts.decode_steps + counts.accepted_tokens
        if before is not None:
            assert all(getattr(before, name) <= getattr(counts, name) for name in COUNTERS)
        before = counts


@pytest.mark.parametrize("mix", [Mix(0.7, 0.02), Mix(0.7, 0.02, 0.5)], ids=["every step", "n-gram"])
def test_tokens_per_step_are_those_of_the_distributions(mix):
    server = server_of(NGRAM if mix.searches else None)
    last = polls_of(mix, places=8, seconds=400, server=server)[-1]
    means = population(mix, server.tokens)
    decoded = last.generation_tokens - last.first_tokens
    assert decoded / last.decode_steps == pytest.approx(means.tokens_per_step, rel=0.02)
    assert last.drafts / last.decode_steps == pytest.approx(means.coverage, rel=0.03)
    assert last.draft_tokens / last.drafts == pytest.approx(means.draft_length, rel=0.02)
