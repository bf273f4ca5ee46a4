"""Answer lengths: power sums of a histogram, and what they say of how much lengths differ."""

from __future__ import annotations

from itertools import accumulate
from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.answer_lengths import NO_ANSWERS, AnswerLengths, answer_lengths

BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, inf)
COUNTS = st.lists(st.integers(0, 10_000), min_size=len(BOUNDS), max_size=len(BOUNDS))


def lengths(**buckets):
    """Return the sums of requests in the buckets that end at these tokens, as ``to_500=3``."""
    counts = [buckets.get(f"to_{bound}", 0) for bound in BOUNDS]
    return answer_lengths(Buckets(BOUNDS, tuple(accumulate(counts))))


def test_answers_of_one_bucket_are_alike():
    alike = lengths(to_500=40)
    assert alike.requests == 40
    assert alike.equal_share == pytest.approx(1.0)
    assert alike.life_share == pytest.approx(1.0)


def test_a_few_long_answers_leave_little_of_many_short_ones():
    # Midpoints: 95 of sqrt(100*200) = 141.4 tokens, and 5 of sqrt(2000*5000) = 3162.3.
    mixed = lengths(to_200=95, to_5000=5)
    mean, square, cube = (0.95 * 141.421**power + 0.05 * 3162.278**power for power in (1, 2, 3))
    assert mixed.equal_share == pytest.approx(mean**2 / square, rel=1e-4)
    assert mixed.life_share == pytest.approx(mean * square / cube, rel=1e-4)
    assert (mixed.equal_share, mixed.life_share) == pytest.approx((0.165, 0.0958), abs=1e-3)


def test_the_last_bucket_is_taken_as_long_as_the_longest_gap_between_the_bounds():
    assert lengths(to_inf=2).millitokens == pytest.approx(2e3 * 5000 * sqrt(2.5), rel=1e-6)


def test_the_first_bucket_is_one_token():
    assert lengths(to_1=3) == AnswerLengths(3, 3000, 3, 3)


def test_lengths_beyond_any_context_are_limited():
    sums = answer_lengths(Buckets((1e9, inf), (2, 4)))
    assert sums.is_possible
    assert sums.millitokens == 4 * 200_000_000


def test_a_single_bucket_of_any_length_tells_nothing():
    assert answer_lengths(Buckets((inf,), (5,))).equal_share is None


def test_without_answers_nothing_is_known():
    assert lengths() == NO_ANSWERS
    assert NO_ANSWERS.equal_share is None
    assert NO_ANSWERS.life_share is None


@given(COUNTS)
def test_lives_are_fewer_than_effective_requests_and_these_than_requests(counts):
    sums = answer_lengths(Buckets(BOUNDS, tuple(accumulate(counts))))
    if not any(counts):
        assert sums == NO_ANSWERS
        return
    # By Cauchy and Schwarz: (Σl²)² is at most Σl·Σl³, and (Σl)² at most n·Σl².
    assert 0 < sums.life_share <= sums.equal_share * (1 + 1e-3) <= 1 + 1e-3


@given(COUNTS, COUNTS)
def test_sums_of_two_engines_are_those_of_all_their_requests(one, other):
    both = [first + second for first, second in zip(one, other, strict=True)]
    sums = [answer_lengths(Buckets(BOUNDS, tuple(accumulate(counts)))) for counts in (one, other, both)]
    assert sums[0].plus(sums[1]) == sums[2]
    assert sums[2].minus(sums[0]) == sums[1]


def test_sums_that_fell_or_are_too_large_are_impossible():
    assert lengths(to_500=4).minus(lengths(to_500=3)).is_possible
    assert not lengths(to_500=3).minus(lengths(to_500=4)).is_possible
    assert not lengths(to_5000=2**53).is_possible
