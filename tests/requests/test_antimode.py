"""How far numbers are from one heap."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.antimode import antimode_depth

ascending = st.lists(st.integers(-1000, 1000), min_size=1, max_size=30, unique=True).map(sorted)


def slowly(numbers):
    """The same by trying every place and every straight line between two numbers."""
    number = len(numbers)
    mirrored = [-value for value in reversed(numbers)]
    return (
        min(max(bulge(numbers[:m]), bulge(mirrored[: number - m + 1])) for m in range(1, number + 1)) / number
    )


def bulge(numbers):
    """How far the empirical function rises above the highest convex one that is nowhere above its steps."""
    farthest = 0.0
    for place, value in enumerate(numbers[:-1]):
        # The highest is, at each number, as low as the lowest straight line over it between two others.
        lines = (
            begin + (value - numbers[begin]) / (numbers[end] - numbers[begin]) * (end - begin)
            for begin in range(place + 1)
            for end in range(place + 1, len(numbers))
        )
        farthest = max(farthest, place + 1 - min(lines))
    return farthest


@given(ascending)
def test_the_valley_is_as_deep_as_trying_everything_says(numbers):
    assert antimode_depth(numbers) == pytest.approx(slowly(numbers), abs=1e-9)


@given(ascending, st.integers(1, 50), st.integers(-100, 100))
def test_the_depth_does_not_depend_on_where_the_numbers_are_or_on_their_unit(numbers, unit, shift):
    moved = [unit * value + shift for value in numbers]
    assert antimode_depth(moved) == pytest.approx(antimode_depth(numbers), abs=1e-9)


@given(ascending)
def test_the_depth_is_the_same_seen_from_the_other_side(numbers):
    mirrored = [-value for value in reversed(numbers)]
    assert antimode_depth(mirrored) == pytest.approx(antimode_depth(numbers), abs=1e-9)


def test_two_heaps_of_equal_size_are_half_a_valley():
    numbers = [place / 1000 for place in range(100)] + [10 + place / 1000 for place in range(100)]
    assert antimode_depth(numbers) == pytest.approx(0.5, abs=0.02)


def test_the_smaller_of_two_heaps_is_what_is_in_the_way():
    numbers = [place / 1000 for place in range(40)] + [10 + place / 1000 for place in range(160)]
    assert antimode_depth(numbers) == pytest.approx(0.2, abs=0.02)


def test_one_heap_has_hardly_a_valley():
    generator = random.Random(1)
    numbers = sorted(generator.gauss(0, 1) for _ in range(400))
    assert antimode_depth(numbers) < 1 / 20  # by chance, 1/√400
