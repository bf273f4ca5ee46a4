"""Share of requests below break-even: detected if requests differ, not if chance alone puts them below."""

from __future__ import annotations

import random
from math import nan, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.below_break_even import (
    MAX_SAMPLE,
    InformativeRequest,
    by_tokens,
    even_sample,
    share_below_break_even,
)

TOKENS = 4
BREAK_EVEN = 1.7
"""Accepted tokens of a draft of four at break-even, for c = 0.4 and c0 = 0.1."""


def length_of(single, tokens=TOKENS):
    """Return the accepted tokens per draft if tokens survive independently."""
    return sum(single**position for position in range(1, tokens + 1))


def surviving(accepted, tokens=TOKENS):
    return next(p / 1000 for p in range(1001) if length_of(p / 1000, tokens) >= accepted)


def draw(generator, single, drafts, *, break_even=BREAK_EVEN, tokens=TOKENS, whole=False):
    """Return a request whose draft tokens survive one by one, or entire drafts together."""
    accepted = 0
    for _ in range(drafts):
        if whole:
            accepted += tokens * (generator.random() < single)
            continue
        for _ in range(tokens):
            if generator.random() >= single:
                break
            accepted += 1
    return InformativeRequest(tokens, drafts, tokens * drafts, accepted, break_even)


def alike(generator, speedup, number, drafts, *, whole=False):
    accepted = speedup * (1 + BREAK_EVEN) - 1
    single = accepted / TOKENS if whole else surviving(accepted)
    return [draw(generator, single, drafts, whole=whole) for _ in range(number)]


@pytest.mark.parametrize("whole", [False, True], ids=["token by token", "whole drafts"])
@pytest.mark.parametrize("speedup", [1.02, 1.05, 1.1, 1.2])
@pytest.mark.parametrize(("number", "drafts"), [(100, 16), (50, 100), (200, 30)])
def test_equal_requests_are_not_below_break_even(speedup, number, drafts, whole):
    generator, below, alarms = random.Random(7), 0, 0
    for _ in range(5):
        requests = alike(generator, speedup, number, drafts, whole=whole)
        below += sum(each.accepted_tokens < BREAK_EVEN * each.drafts for each in requests)
        alarms += share_below_break_even(requests) > 0.1
    assert alarms <= 1
    if speedup == 1.02:
        assert below > 0.25 * 5 * number  # by chance alone


@pytest.mark.parametrize("tokens", [60, 120, 300])
def test_the_mix_of_the_documentation_is_detected(tokens):
    generator = random.Random(3)
    for _ in range(5):
        shares = [0.38] * 40 + [0.82] * 60
        requests = [
            draw(generator, surviving(share * TOKENS), round(tokens / (1 + share * TOKENS)))
            for share in shares
        ]
        assert 0.15 < share_below_break_even(requests) < 0.45


def test_long_requests_are_counted_by_their_own_acceptance():
    requests = [InformativeRequest(4, 10_000, 40_000, 10_000, 1.7)] * 25 + [
        InformativeRequest(4, 10_000, 40_000, 30_000, 1.7)
    ] * 75
    assert share_below_break_even(requests) == pytest.approx(0.25, abs=1e-6)


def test_the_share_equals_the_formulas():
    """15 requests with 20 of 40 tokens and 15 with 36, of ten drafts each."""
    requests = [InformativeRequest(4, 10, 40, 20, 2.2)] * 15 + [InformativeRequest(4, 10, 40, 36, 2.2)] * 15
    variance = 2.8 * 1.2  # of a mean of 2.8
    q = 30 * 10 * 0.8**2 / variance
    assert q > 49.588  # the 0.99 quantile of 29 degrees
    between = variance * (q - 29) / (300 - 3000 / 300)
    weight = between / (between + variance / 10)
    spread = sqrt(weight * variance / 10)
    low, high = (NormalDist(2.8 + weight * apart, spread).cdf(2.2) for apart in (-0.8, 0.8))
    assert share_below_break_even(requests) == pytest.approx((low + high) / 2)


def test_differences_within_chance_count_as_zero():
    # Q = 300·0.7²/3.36 = 43.8 is below the limit of 49.6; with ten times the drafts it is 438.
    def apart(drafts):
        accepted = (21 * drafts // 10, 35 * drafts // 10)
        return [InformativeRequest(4, drafts, 4 * drafts, each, 2.2) for each in accepted for _ in range(15)]

    assert share_below_break_even(apart(10)) == 0.0
    assert share_below_break_even(apart(100)) > 0.3


def test_requests_of_different_k_are_evaluated_separately():
    """All tokens have the same acceptance, at K = 2 and at K = 6."""
    generator = random.Random(5)
    requests = [draw(generator, 0.8, 60, tokens=2, break_even=1.6) for _ in range(100)]
    requests += [draw(generator, 0.8, 40, tokens=6, break_even=1.6) for _ in range(100)]
    assert share_below_break_even(requests) == 0.0


@pytest.mark.parametrize("number", [0, 1, 29])
def test_too_few_requests_of_a_k_count_as_zero(number):
    requests = [InformativeRequest(4, 1000, 4000, 0 if index % 2 else 4000, 1.7) for index in range(number)]
    assert share_below_break_even(requests) == 0.0
    assert share_below_break_even([*requests, *[InformativeRequest(5, 1000, 5000, 2500, 1.7)] * 30]) == 0.0


def test_requests_without_a_known_cost_are_not_evaluated():
    known = [
        InformativeRequest(4, 10_000, 40_000, 10_000 if index % 4 else 30_000, 1.7) for index in range(40)
    ]
    unknown = [each._replace(break_even=nan) for each in known]
    assert share_below_break_even(unknown) == 0.0
    assert share_below_break_even([*known, *unknown]) == share_below_break_even(known)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 8), st.integers(1, 500), st.floats(0, 1), st.floats(0, 1), st.floats(0, 5)
        ).map(
            lambda of: InformativeRequest(
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
def test_the_share_is_between_0_and_1(requests):
    assert 0 <= share_below_break_even(requests) <= 1 + 1e-9


@pytest.mark.parametrize("accepted", [0, 400])
def test_identical_requests_are_not_below_break_even(accepted):
    assert share_below_break_even([InformativeRequest(4, 100, 400, accepted, 1.7)] * 50) == 0.0


def rows(number, tokens=4):
    return [(tokens, 10 + place, 40, 20, 1.0) for place in range(number)]


def test_a_small_sample_has_all_requests():
    assert [each.drafts for each in even_sample(rows(3))] == [10, 11, 12]
    assert even_sample([]) == []


def test_a_large_sample_is_even():
    sample = even_sample(rows(5 * MAX_SAMPLE))
    assert [each.drafts for each in sample] == list(range(10, 10 + 5 * MAX_SAMPLE, 5))


def test_the_most_frequent_number_of_tokens_is_first():
    groups = by_tokens(even_sample([*rows(2, tokens=1), *rows(5, tokens=8), *rows(3, tokens=2)]))
    assert [(each[0].tokens, len(each)) for each in groups] == [(8, 5), (2, 3), (1, 2)]
