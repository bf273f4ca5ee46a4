"""Traffic has the counters of a real server, and its means are those of the distributions."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.truth.hardware import H100, Efficiency
from benchmarks.truth.server import Host, Server
from benchmarks.truth.shapes import DENSE_8B, NGRAM
from benchmarks.truth.traffic import COUNTERS, Mix, Traffic, binomial, draw, pace, plain_seconds, population

HOST = Host(1e-3, 8e-6, is_plain_overlapped=True, is_drafting_overlapped=True)
MIX = Mix(0.7, 0.1, prompt_tokens=200, hit_ratio=0.5)
STEP = 0.02


def server_of(drafter=None, tokens=4):
    efficiency = Efficiency(0.75, 0.6, 4.0)
    return Server(DENSE_8B, drafter or DENSE_8B.drafters[1], tokens, H100, efficiency, HOST, 0.35, 1000.0)


def polls_of(mix=MIX, *, places=4, seconds=100, drafts=True, rate=None, server=None):
    traffic = Traffic(Random(1), server or server_of(), mix, places, rate=rate)
    return list(traffic.seconds(seconds, lambda _: STEP, drafts=drafts))


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


def test_every_decode_step_has_a_draft_unless_drafts_are_searched_for():
    last = polls_of()[-1]
    assert last.drafts == last.decode_steps
    assert last.draft_tokens == 4 * last.drafts


def test_a_pause_gives_one_token_a_step_and_no_drafts():
    last = polls_of(drafts=False)[-1]
    assert last.drafts == last.draft_tokens == last.accepted_tokens == 0
    assert last.generation_tokens - last.first_tokens == last.decode_steps


def test_requests_take_their_first_token_and_their_decode_steps():
    first, *_, last = polls_of(places=2, seconds=300)
    finished = last.finished_requests - first.finished_requests
    parts = last.first_token_nanoseconds + last.decode_nanoseconds
    assert last.end_to_end_nanoseconds == pytest.approx(parts, rel=4 / finished)


def test_half_of_a_prompt_is_in_the_prefix_cache():
    last = polls_of()[-1]
    assert (
        last.prefix_cache_hits * 2
        == last.prefix_cache_queries
        == last.prompt_tokens
        == 200 * last.first_tokens
    )


@pytest.mark.parametrize("mix", [Mix(0.7, 0.02), Mix(0.7, 0.02, 0.5)], ids=["every step", "n-gram"])
def test_tokens_per_step_are_those_of_the_distributions(mix):
    server = server_of(NGRAM if mix.searches else None)
    last = polls_of(mix, places=8, seconds=400, server=server)[-1]
    means = population(mix, server.tokens)
    decoded = last.generation_tokens - last.first_tokens
    assert decoded / last.decode_steps == pytest.approx(means.tokens_per_step, rel=0.02)
    assert last.drafts / last.decode_steps == pytest.approx(means.coverage, rel=0.03)
    assert last.draft_tokens / last.drafts == pytest.approx(means.draft_length, rel=0.02)


def test_the_mean_of_drawn_requests_is_that_of_the_distributions():
    random, mix = Random(1), Mix(0.6, 0.15)
    requests = [draw(random, mix, 4) for _ in range(4000)]
    tokens = sum(request.answer_tokens - 1 for request in requests)
    drawn = tokens / sum(request.steps for request in requests)
    assert drawn == pytest.approx(population(mix, 4).tokens_per_step, rel=0.02)


def test_a_draft_that_is_always_accepted_gives_all_its_tokens():
    # The decay of positions is 0.97 each, so a draft of one token isolates the acceptance.
    assert population(Mix(0.999, 0.0001), 1).tokens_per_step == pytest.approx(2, rel=0.01)
    assert population(Mix(0.001, 0.0001), 1).tokens_per_step == pytest.approx(1, rel=0.01)


def test_drafts_of_one_request_are_alike():
    random = Random(1)
    first = [draw(random, Mix(0.6, 0.15), 1).accepted for _ in range(4000)]
    mean = sum(first) / len(first)
    deviation = (sum((each - mean) ** 2 for each in first) / len(first)) ** 0.5
    assert (mean, deviation) == (pytest.approx(0.6, abs=0.02), pytest.approx(0.15, abs=0.02))


def test_requests_wait_where_more_arrive_than_are_served():
    last = polls_of(places=2, rate=20.0)[-1]
    assert last.running_requests == 2
    assert last.waiting_requests > 100
    waited = last.first_token_nanoseconds / last.first_tokens
    assert waited > 10e9


def test_requests_do_not_wait_where_few_arrive():
    last = polls_of(places=64, rate=1.0)[-1]
    assert last.waiting_requests == 0
    assert last.running_requests < 20


def test_prompts_lengthen_steps_and_more_so_while_drafting():
    server, short = server_of(), Mix(0.7, 0.1)
    plain = [plain_seconds(server, mix, 32) for mix in (short, Mix(0.7, 0.1, prompt_tokens=2000))]
    drafting = [pace(server, mix, 32).step_seconds for mix in (short, Mix(0.7, 0.1, prompt_tokens=2000))]
    assert drafting[1] - drafting[0] > plain[1] - plain[0] > 0


@given(st.integers(0, 1000), st.floats(0, 1), st.integers(0, 100))
def test_a_binomial_draw_is_possible(number, probability, seed):
    assert 0 <= binomial(Random(seed), number, probability) <= number


@pytest.mark.parametrize(("number", "probability"), [(5, 0.3), (40, 0.1), (200, 0.4), (200, 0.97)])
def test_a_binomial_draw_has_its_mean_and_variance(number, probability):
    random = Random(1)
    draws = [binomial(random, number, probability) for _ in range(5000)]
    mean = sum(draws) / len(draws)
    variance = sum((each - mean) ** 2 for each in draws) / len(draws)
    expected = number * probability
    assert mean == pytest.approx(expected, abs=4 * (expected / 5000) ** 0.5)
    assert variance == pytest.approx(expected * (1 - probability), rel=0.1)
