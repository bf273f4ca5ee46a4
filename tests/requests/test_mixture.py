"""Two populations in one: the example of the issue, and that one is not taken for two."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.requests.mixture import LEAST_DISTANCE, modes

TOKENS = 4


@cache
def of_single_tokens(share):
    """How many of single tokens survive, if that share of four in a row does."""
    return next(p / 1000 for p in range(1001) if sum((p / 1000) ** i for i in (1, 2, 3, 4)) / 4 >= share)


def accepted(generator, share, drafts):
    """What is accepted of a request, whose tokens survive one by one so that ``share`` of them do."""
    single, total = of_single_tokens(share), 0
    for _ in range(drafts):
        for _ in range(TOKENS):
            if generator.random() >= single:
                break
            total += 1
    return total / (TOKENS * drafts), drafts


def mixed(generator, number, tokens=120):
    """60 % of the requests at 0.82 and 40 % at 0.38, of equal length: those at 0.38 need more drafts."""
    low = round(0.4 * number)
    shares = [0.38] * low + [0.82] * (number - low)
    return [accepted(generator, share, round(tokens / (1 + TOKENS * share))) for share in shares]


@pytest.mark.parametrize("number", [50, 100])
def test_the_mix_that_looks_healthy_is_found(number):
    generator = random.Random(5)
    found = [modes(mixed(generator, number)) for _ in range(40)]
    assert sum(each is not None for each in found) >= 38
    for each in found:
        if each is not None:
            assert each.low_share == pytest.approx(0.4, abs=0.05)
            assert each.low_mean == pytest.approx(0.38, abs=0.05)
            assert each.high_mean == pytest.approx(0.82, abs=0.05)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (20, 5), (2, 8)])
def test_one_population_is_not_taken_for_two(shape):
    generator = random.Random(11)
    alarms = 0
    for _ in range(40):
        drafts = [generator.randrange(5, 501) for _ in range(60)]
        requests = [accepted_of(generator, generator.betavariate(*shape), each) for each in drafts]
        alarms += modes(requests) is not None
    assert alarms <= 2


def accepted_of(generator, share, drafts):
    """A quick draw: whole drafts."""
    whole = sum(generator.random() < share for _ in range(drafts))
    return whole / drafts, drafts


def test_shares_that_cannot_lie_between_whole_drafts_are_no_heaps():
    # Of ten drafts, all of them alike, only eleven shares can be seen: that is no valley between them.
    generator = random.Random(2)
    requests = [accepted_of(generator, 0.6, 10) for _ in range(3000)]
    assert modes(requests) is None


def test_too_few_requests_say_nothing():
    assert modes([(0.2, 100)] * 15 + [(0.8, 100)] * 14) is None
    assert modes([(0.2, 100)] * 15 + [(0.8, 100)] * 15) is not None


def test_heaps_that_are_near_each_other_do_not_matter():
    near = LEAST_DISTANCE - 0.01
    assert modes([(0.5, 10_000)] * 50 + [(0.5 + near, 10_000)] * 50) is None
    assert modes([(0.5, 10_000)] * 50 + [(0.52 + near, 10_000)] * 50) is not None


def test_a_few_that_are_far_off_are_no_heap():
    assert modes([(0.1, 1000)] * 5 + [(0.8, 1000)] * 95) is None


def test_requests_that_are_all_alike_are_one_heap():
    assert modes([(1.0, 50)] * 100) is None
    assert modes([(0.0, 50)] * 100) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 500)), max_size=400))
def test_what_is_found_is_possible(requests):
    found = modes(requests)
    if found is not None:
        assert 0.1 <= found.low_share <= 0.9
        assert 0 <= found.low_mean < found.high_mean <= 1
        mean = sum(share for share, _ in requests) / len(requests)
        whole = found.low_share * found.low_mean + (1 - found.low_share) * found.high_mean
        assert whole == pytest.approx(mean)
