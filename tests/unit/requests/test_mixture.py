"""Bimodality: two modes are detected, one is not taken for two; depth of the antimode."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.requests.mixture import MIN_DISTANCE, antimode_depth, modes


def accepted_of(generator, share, drafts):
    """Draw a request whose drafts are accepted entirely or not at all."""
    whole = sum(generator.random() < share for _ in range(drafts))
    return whole / drafts, drafts


def test_two_modes_with_a_healthy_mean_are_detected():
    generator = random.Random(5)
    found = modes([accepted_of(generator, share, 100) for share in [0.38] * 40 + [0.82] * 60])
    assert (found.low_share, found.low_mean, found.high_mean) == pytest.approx((0.4, 0.38, 0.82), abs=0.05)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (20, 5), (2, 8)])
def test_one_population_is_not_taken_for_two(shape):
    generator = random.Random(11)
    alarms = 0
    for _ in range(40):
        drafts = [generator.randrange(5, 501) for _ in range(60)]
        requests = [accepted_of(generator, generator.betavariate(*shape), each) for each in drafts]
        alarms += modes(requests) is not None
    assert alarms <= 2


def test_the_discrete_shares_of_whole_drafts_are_not_modes():
    # Ten drafts allow only eleven shares: the gaps between them are not an antimode.
    generator = random.Random(2)
    requests = [accepted_of(generator, 0.6, 10) for _ in range(3000)]
    assert modes(requests) is None


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        ([(0.2, 100)] * 15, [(0.8, 100)] * 14, False),  # too few requests
        ([(0.2, 100)] * 15, [(0.8, 100)] * 15, True),
        ([(0.5, 10_000)] * 50, [(0.49 + MIN_DISTANCE, 10_000)] * 50, False),  # too close
        ([(0.5, 10_000)] * 50, [(0.51 + MIN_DISTANCE, 10_000)] * 50, True),
        ([(0.1, 1000)] * 5, [(0.8, 1000)] * 95, False),  # outliers
        ([(0.0, 50)] * 50, [(0.0, 50)] * 50, False),
    ],
)
def test_modes_are_apart_and_have_enough_requests(low, high, found):
    assert (modes([*low, *high]) is not None) is found


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 500)), max_size=400))
def test_the_modes_are_consistent_with_the_mean(requests):
    found = modes(requests)
    if found is not None:
        assert 0.1 <= found.low_share <= 0.9
        assert 0 <= found.low_mean < found.high_mean <= 1
        mean = sum(share for share, _ in requests) / len(requests)
        whole = found.low_share * found.low_mean + (1 - found.low_share) * found.high_mean
        assert whole == pytest.approx(mean)


ascending = st.lists(st.integers(-1000, 1000), min_size=1, max_size=30, unique=True).map(sorted)


def depth_by_trial(numbers):
    """Return the depth by trying every point and every straight line between two numbers."""
    number = len(numbers)
    mirrored = [-value for value in reversed(numbers)]
    return (
        min(max(distance(numbers[:m]), distance(mirrored[: number - m + 1])) for m in range(1, number + 1))
        / number
    )


def distance(numbers):
    """Return the distance of the empirical function from its greatest convex minorant."""
    farthest = 0.0
    for place, value in enumerate(numbers[:-1]):
        # At each number the minorant is the lowest straight line between two others.
        lines = (
            begin + (value - numbers[begin]) / (numbers[end] - numbers[begin]) * (end - begin)
            for begin in range(place + 1)
            for end in range(place + 1, len(numbers))
        )
        farthest = max(farthest, place + 1 - min(lines))
    return farthest


@given(ascending)
def test_the_antimode_depth_equals_an_exhaustive_search(numbers):
    assert antimode_depth(numbers) == pytest.approx(depth_by_trial(numbers), abs=1e-9)
