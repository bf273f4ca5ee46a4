"""Estimates: hand-made examples, what must hold of any increments, and whether they are right on average."""

from math import cos, inf, pi, sqrt
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.estimate import estimate_of, projected, ratio, standard_error

ANYTHING = (-inf, inf)  # the range of what is possible


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [(1, 4, 0.25), (0, 4, 0.0), (0, 0, None), (3, 0, None), (None, 4, None), (1, None, None), (1e300, 1e-300, None)],
)  # fmt: skip
def test_a_ratio_needs_both_sides_and_a_denominator_other_than_0(numerator, denominator, expected):
    assert ratio(numerator, denominator) == expected


# Residuals 1 1 -1 -1; cos(π/8) = .92388, cos(3π/8) = .38268: Σ r cos = 2·(.92388 + .38268) = 2.61313 for
# b = 1, 0 for b = 2 and 2·(.38268 - .92388) = -1.08239 for b = 3.
BY_HAND = sqrt(2 / 3 * (2.61313**2 + 1.08239**2))


@pytest.mark.parametrize(
    ("numerators", "denominators", "more", "expected"),
    [
        # 40 accepted of 20 drafts: 2; residuals as above; t of 3 degrees of freedom is 3.182, of 2 it is 4.303.
        ([11, 11, 9, 9], [5, 5, 5, 5], {}, (2, 2 - 3.182 * BY_HAND / 20, 2 + 3.182 * BY_HAND / 20)),
        ([11, 10, 9], [5, 5, 5], {}, (2, 2 - 4.303 * sqrt(3) / 15, 2 + 4.303 * sqrt(3) / 15)),
        # Bounds are clipped to what is possible, and contain a value that a torn page made impossible.
        ([11, 11, 9, 9], [5, 5, 5, 5], {"possible": (1.9, 2.05)}, (2, 1.9, 2.05)),
        ([11, 11, 9, 9], [5, 5, 5, 5], {"possible": (0.0, 1.0)}, (2, 2 - 3.182 * BY_HAND / 20, 2)),
        ([11, 11, 9, 9], [5, 5, 5, 5], {"possible": (3.0, 4.0)}, (2, 2, 2 + 3.182 * BY_HAND / 20)),
        # The minimum error applies if the increments agree by chance.
        ([2, 2, 2, 2], [1, 1, 1, 1], {}, (2, 2, 2)),
        ([2, 2, 2, 2], [1, 1, 1, 1], {"min_error": 0.1}, (2, 2 - 0.3182, 2 + 0.3182)),
    ],
)
def test_an_estimate_by_hand(numerators, denominators, more, expected):
    found = estimate_of(numerators, denominators, 3, **{"possible": ANYTHING, **more})
    assert found[:3] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("numerators", "denominators", "residuals"),
    [
        # 6 over 4 is 1.5; what is more or less than that follows.
        ([2, 0, 2, 2], [1, 1, 1, 1], [0.5, -1.5, 0.5, 0.5]),
        ([2, 1, 2, 1], [1, 0, 1, 2], [0.5, 1, 0.5, -2]),
    ],
)
def test_an_increment_is_not_idle_if_either_side_of_the_ratio_moved(numerators, denominators, residuals):
    error = standard_error(residuals, 3) / 4
    found = estimate_of(numerators, denominators, 3, ANYTHING)
    assert found.standard_error == pytest.approx(error)


@pytest.mark.parametrize(
    ("numerators", "denominators", "cosines"),
    [
        ([11, 11, 9, 9], [5, 5, 5, 5], 1),
        ([11, 9], [5, 5], 3),
        ([11, 0, 0, 9], [5, 0, 0, 5], 3),
        ([0, 0, 0, 0], [0, 0, 0, 0], 3),
        ([1, 1, 1, 1], [0, 0, 0, 0], 3),
        ([], [], 3),
    ],
)
def test_an_estimate_needs_two_cosines_and_something_to_divide_by(numerators, denominators, cosines):
    assert estimate_of(numerators, denominators, cosines, ANYTHING) is None


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=50), st.integers(1, 12))
def test_a_standard_error_is_that_of_the_formula(residuals, cosines):
    number, length = min(cosines, len(residuals) - 1), len(residuals)
    waves = ([cos(pi * b * (j + 0.5) / length) for j in range(length)] for b in range(1, number + 1))
    squares = [sum(one * weight for one, weight in zip(residuals, wave, strict=True)) ** 2 for wave in waves]
    assert standard_error(residuals, cosines) == pytest.approx(sqrt(2 / number * sum(squares)), abs=1e-9)


INCREMENTS = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), min_size=3, max_size=50)


@given(INCREMENTS, st.integers(2, 12), st.integers(-3, 3))
def test_an_estimate_by_projections_is_that_of_the_columns(increments, cosines, weight):
    numerators, denominators = zip(*increments, strict=True)
    above, below, thrice = projected([numerators, denominators, [3 * one for one in denominators]], cosines)
    assert thrice == pytest.approx([3 * part for part in below])
    mixed = [one + weight * other for one, other in zip(above, below, strict=True)]
    found = estimate_of(mixed, below, None, ANYTHING, min_error=0.001)
    columns = [one + weight * other for one, other in increments], denominators
    expected = estimate_of(*columns, cosines, ANYTHING, min_error=0.001)
    assert found == pytest.approx(expected, abs=1e-9)


def test_bounds_hold_in_95_of_100_windows():
    """Neighbouring increments are correlated: a seeded AR(1)."""
    random, held = Random(20260726), []
    for _ in range(2000):
        level, series = random.gauss(0, 1), []
        for _ in range(60):
            level = 0.5 * level + sqrt(0.75) * random.gauss(0, 1)
            series.append(level + 5)
        found = estimate_of(series, [1] * 60, 3, ANYTHING)
        held.append(abs(found.value - 5) <= found.upper - found.value)
    assert fmean(held) == pytest.approx(0.95, abs=0.015)
