"""How many requests lose: found where they differ, and not where chance alone puts them below break-even."""

from __future__ import annotations

import random
from math import nan, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.below_break_even import losing_share
from spec_decode_exporter.requests.informative_requests import InformativeRequests

TOKENS = 4
NEEDED = 1.7
"""Accepted tokens that a draft of four needs at c = 0.4 and c0 = 0.1."""


def length_of(single, tokens=TOKENS):
    """Accepted tokens a draft, where each token survives by itself."""
    return sum(single**position for position in range(1, tokens + 1))


def surviving(accepted, tokens=TOKENS):
    return next(p / 1000 for p in range(1001) if length_of(p / 1000, tokens) >= accepted)


def draw(generator, single, drafts, *, needed=NEEDED, tokens=TOKENS, whole=False):
    """A request whose draft tokens survive one by one, or all of a draft together."""
    accepted = 0
    for _ in range(drafts):
        if whole:
            accepted += tokens * (generator.random() < single)
            continue
        for _ in range(tokens):
            if generator.random() >= single:
                break
            accepted += 1
    return InformativeRequests(tokens, drafts, tokens * drafts, accepted, needed)


def alike(generator, speedup, number, drafts, *, whole=False):
    accepted = speedup * (1 + NEEDED) - 1
    single = accepted / TOKENS if whole else surviving(accepted)
    return [draw(generator, single, drafts, whole=whole) for _ in range(number)]


@pytest.mark.parametrize("whole", [False, True], ids=["token by token", "whole drafts"])
@pytest.mark.parametrize("speedup", [1.02, 1.05, 1.1, 1.2])
@pytest.mark.parametrize(("number", "drafts"), [(100, 16), (50, 100), (200, 30)])
def test_requests_that_are_alike_do_not_lose_one_by_one(speedup, number, drafts, whole):
    generator, below, alarms = random.Random(7), 0, 0
    for _ in range(5):
        requests = alike(generator, speedup, number, drafts, whole=whole)
        below += sum(each.accepted_tokens < NEEDED * each.drafts for each in requests)
        alarms += losing_share(requests) > 0.1
    assert alarms <= 1
    if speedup == 1.02:
        assert below > 0.25 * 5 * number  # though by chance alone many are below


@pytest.mark.parametrize("tokens", [60, 120, 300])
def test_the_mix_of_the_documents_is_found(tokens):
    generator = random.Random(3)
    for _ in range(5):
        shares = [0.38] * 40 + [0.82] * 60
        requests = [
            draw(generator, surviving(share * TOKENS), round(tokens / (1 + share * TOKENS)))
            for share in shares
        ]
        assert 0.15 < losing_share(requests) < 0.45


def test_requests_that_say_much_of_themselves_are_counted_as_they_are():
    requests = [InformativeRequests(4, 10_000, 40_000, 10_000, 1.7)] * 25 + [
        InformativeRequests(4, 10_000, 40_000, 30_000, 1.7)
    ] * 75
    assert losing_share(requests) == pytest.approx(0.25, abs=1e-6)


def test_the_share_by_hand():
    """15 requests with 20 of 40 tokens and 15 with 36, of ten drafts each."""
    requests = [InformativeRequests(4, 10, 40, 20, 2.2)] * 15 + [InformativeRequests(4, 10, 40, 36, 2.2)] * 15
    variance = 2.8 * 1.2  # of a mean of 2.8
    q = 30 * 10 * 0.8**2 / variance
    assert q > 49.588  # the 0.99 quantile of 29 degrees
    between = variance * (q - 29) / (300 - 3000 / 300)
    weight = between / (between + variance / 10)
    spread = sqrt(weight * variance / 10)
    low, high = (NormalDist(2.8 + weight * apart, spread).cdf(2.2) for apart in (-0.8, 0.8))
    assert losing_share(requests) == pytest.approx((low + high) / 2)


def test_what_chance_may_have_done_counts_for_nothing():
    # Q = 300·0.7²/3.36 = 43.8, where chance alone gives 49.6; of ten times the drafts it is 438.
    def apart(drafts):
        accepted = (21 * drafts // 10, 35 * drafts // 10)
        return [InformativeRequests(4, drafts, 4 * drafts, each, 2.2) for each in accepted for _ in range(15)]

    assert losing_share(apart(10)) == 0.0
    assert losing_share(apart(100)) > 0.3


def test_another_number_of_draft_tokens_is_no_other_kind_of_request():
    """Every token of every request is accepted alike, at K = 2 and at K = 6."""
    generator = random.Random(5)
    requests = [draw(generator, 0.8, 60, tokens=2, needed=1.6) for _ in range(100)]
    requests += [draw(generator, 0.8, 40, tokens=6, needed=1.6) for _ in range(100)]
    assert losing_share(requests) == 0.0


@pytest.mark.parametrize("number", [0, 1, 29])
def test_of_too_few_requests_of_a_k_nobody_knows(number):
    requests = [InformativeRequests(4, 1000, 4000, 0 if turn % 2 else 4000, 1.7) for turn in range(number)]
    assert losing_share(requests) == 0.0
    assert losing_share([*requests, *[InformativeRequests(5, 1000, 5000, 2500, 1.7)] * 30]) == 0.0


def test_requests_of_which_no_cost_is_known_are_not_evaluated():
    known = [
        InformativeRequests(4, 10_000, 40_000, 10_000 if turn % 4 else 30_000, 1.7) for turn in range(40)
    ]
    unknown = [each._replace(needed=nan) for each in known]
    assert losing_share(unknown) == 0.0
    assert losing_share([*known, *unknown]) == losing_share(known)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 8), st.integers(1, 500), st.floats(0, 1), st.floats(0, 1), st.floats(0, 5)
        ).map(
            lambda of: InformativeRequests(
                of[0],
                of[1],
                int(of[0] * of[1] * of[2]),
                int(int(of[0] * of[1] * of[2]) * of[3]),
                of[4],
            )
        ),
        max_size=150,
    )
)
def test_it_is_a_share(requests):
    assert 0 <= losing_share(requests) <= 1 + 1e-9


@pytest.mark.parametrize("accepted", [0, 400])
def test_requests_that_are_all_the_same_are_alike(accepted):
    assert losing_share([InformativeRequests(4, 100, 400, accepted, 1.7)] * 50) == 0.0
