"""Estimates: hand-made examples, what must hold of any increments, and whether they are right on average."""

from __future__ import annotations

from math import inf, sqrt
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.estimate import Estimate, estimate_of, ratio, standard_error


def estimate(numerators, denominators, cosines=3, possible=(-inf, inf), **more):
    return estimate_of(numerators, denominators, cosines, possible, **more)


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [
        (1, 4, 0.25),
        (0, 4, 0.0),
        (0, 0, None),
        (3, 0, None),
        (None, 4, None),
        (1, None, None),
        (1e300, 1e-300, None),
    ],
)
def test_a_ratio_needs_both_sides_and_a_denominator_other_than_0(numerator, denominator, expected):
    assert ratio(numerator, denominator) == expected


@pytest.mark.parametrize(
    ("lower", "upper", "is_apart"), [(3.0, 4.0, True), (2.0, 3.0, False), (0.0, 0.5, True), (0.0, 9.0, False)]
)
def test_bounds_are_apart_if_they_have_nothing_in_common(lower, upper, is_apart):
    assert Estimate(1.5, 1.0, 2.5, 0.1).is_apart(Estimate(2.0, lower, upper, 0.1)) is is_apart
    assert Estimate(1.5, 1.0, 2.5, 0.1).half_width == 1.0


def test_fewer_increments_leave_fewer_cosines():
    # t is 4.303 for two and 3.182 for three.
    for increments, t in ([11, 10, 9], 4.303), ([11, 10, 10, 9], 3.182), ([11, 10, 10, 10, 9], 3.182):
        found = estimate(increments, [5] * len(increments))
        assert (found.upper - found.value) / found.standard_error == pytest.approx(t)


def test_a_standard_error_by_hand():
    # Residuals 1 1 -1 -1; cos(π/8) = .92388, cos(3π/8) = .38268: Σ r cos = 2·(.92388 + .38268) = 2.61313 for
    # b = 1, 0 for b = 2 and 2·(.38268 - .92388) = -1.08239 for b = 3.
    residuals = [1, 1, -1, -1]
    assert standard_error(residuals, 1) == pytest.approx(sqrt(2 * 2.61313**2), rel=1e-5)
    assert standard_error(residuals, 2) == pytest.approx(sqrt(2.61313**2), rel=1e-5)
    error = sqrt(2 / 3 * (2.61313**2 + 1.08239**2))
    assert standard_error(residuals, 3) == pytest.approx(error, rel=1e-5)


def test_with_every_cosine_it_is_that_of_independent_increments():
    # Then the cosines are a whole basis, and the mean of L² is the variance of the increments: here 20 / 3.
    assert standard_error([3, -1, -3, 1], 3) == pytest.approx(sqrt(4 * 20 / 3))
    assert standard_error([3, -1, -3, 1], 12) == pytest.approx(sqrt(4 * 20 / 3))


def test_without_cosines_or_differences_there_is_no_standard_error():
    assert [standard_error(*each) for each in (([1, -1], 0), ([0], 3), ([], 3))] == [0, 0, 0]


def test_an_estimate_by_hand():
    # 40 accepted of 20 drafts: 2; residuals 1 1 -1 -1 as above; t of 3 degrees of freedom is 3.182.
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5])
    error = sqrt(2 / 3 * (2.61313**2 + 1.08239**2)) / 20
    assert found.value == 2
    assert found.standard_error == pytest.approx(error, rel=1e-5)
    assert (found.lower, found.upper) == pytest.approx((2 - 3.182 * error, 2 + 3.182 * error), rel=1e-5)


def test_idle_increments_change_nothing():
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5])
    assert estimate([0, 11, 11, 0, 0, 9, 9, 0], [0, 5, 5, 0, 0, 5, 5, 0]) == found


def test_an_increment_is_not_idle_if_either_side_of_the_ratio_moved():
    # 6 over 4 is 1.5; what is more or less than that follows.
    for numerators, denominators, residuals in (
        ([2, 0, 2, 2], [1, 1, 1, 1], [0.5, -1.5, 0.5, 0.5]),
        ([2, 1, 2, 1], [1, 0, 1, 2], [0.5, 1, 0.5, -2]),
    ):
        error = standard_error(residuals, 3) / 4
        assert estimate(numerators, denominators).standard_error == pytest.approx(error)


def test_bounds_are_clipped_to_what_is_possible():
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5], possible=(1.9, 2.05))
    assert (found.lower, found.upper) == (1.9, 2.05)


def test_bounds_contain_a_value_that_a_torn_page_made_impossible():
    found = estimate([11, 11, 9, 9], [5, 5, 5, 5], possible=(0.0, 1.0))
    assert found.upper == found.value == 2
    assert estimate([11, 11, 9, 9], [5, 5, 5, 5], possible=(3.0, 4.0)).lower == 2


def test_the_minimum_error_applies_if_the_increments_agree_by_chance():
    assert estimate([2, 2, 2, 2], [1, 1, 1, 1]) == Estimate(2, 2, 2, 0, 3)
    found = estimate([2, 2, 2, 2], [1, 1, 1, 1], min_error=0.1)
    assert found.standard_error == 0.1
    assert (found.lower, found.upper) == pytest.approx((2 - 0.3182, 2 + 0.3182))


@pytest.mark.parametrize(
    ("numerators", "denominators", "cosines"),
    [
        ([11, 11, 9, 9], [5, 5, 5, 5], 0),
        ([11, 11, 9, 9], [5, 5, 5, 5], 1),
        ([11, 9], [5, 5], 3),
        ([11, 0, 0, 9], [5, 0, 0, 5], 3),
        ([0, 0, 0, 0], [0, 0, 0, 0], 3),
        ([1, 1, 1, 1], [0, 0, 0, 0], 3),
        ([], [], 3),
    ],
)
def test_an_estimate_needs_two_cosines_and_something_to_divide_by(numerators, denominators, cosines):
    assert estimate(numerators, denominators, cosines) is None


increments_strategy = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), min_size=3, max_size=50)


@given(increments_strategy, st.integers(2, 20), st.integers(1, 1000))
def test_an_estimate_has_the_units_of_its_sums(increments, cosines, factor):
    numerators, denominators = zip(*increments, strict=True)
    found = estimate(numerators, denominators, cosines)
    more = estimate([factor * one for one in numerators], denominators, cosines)
    less = estimate(numerators, [factor * one for one in denominators], cosines)
    for scaled, times in ((more, factor), (less, 1 / factor)):
        assert scaled.value == pytest.approx(times * found.value)
        assert scaled.standard_error == pytest.approx(times * found.standard_error, abs=1e-9)
        assert scaled.lower == pytest.approx(times * found.lower, abs=1e-9)
        assert scaled.upper == pytest.approx(times * found.upper, abs=1e-9)


@given(increments_strategy, st.integers(2, 20))
def test_time_has_no_direction(increments, cosines):
    numerators, denominators = zip(*increments, strict=True)
    found = estimate(numerators, denominators, cosines)
    assert estimate(numerators[::-1], denominators[::-1], cosines).standard_error == pytest.approx(
        found.standard_error, abs=1e-9
    )


# Whether they are right


def wanderings(memory, number, increments=60):
    """Yield series of increments with this correlation of neighbours (a seeded AR(1))."""
    random = Random(20260726)
    for _ in range(number):
        level = random.gauss(0, 1)
        series = []
        for _ in range(increments):
            level = memory * level + sqrt(1 - memory**2) * random.gauss(0, 1)
            series.append(level)
        yield series


def errors(memory, cosines, number=2000):
    """Return the mean squared sum of series, and the mean square that they claim as their standard error."""
    true, claimed = [], []
    for series in wanderings(memory, number):
        average = fmean(series)
        true.append(sum(series) ** 2)
        claimed.append(standard_error([one - average for one in series], cosines) ** 2)
    return fmean(true), fmean(claimed)


@pytest.mark.parametrize("cosines", [3, 12])
def test_the_standard_error_of_independent_increments_is_right(cosines):
    true, claimed = errors(0.0, cosines)
    assert claimed == pytest.approx(60, rel=0.05)
    assert claimed == pytest.approx(true, rel=0.1)


def test_the_standard_error_of_correlated_increments_is_right():
    # Scatter of the increments alone would claim 60 here; the sums vary by 60·(1 + .7)/(1 - .7) = 340.
    true, claimed = errors(0.7, 3)
    assert true == pytest.approx(340, rel=0.15)
    assert claimed == pytest.approx(true, rel=0.15)


def test_bounds_hold_in_95_of_100_windows():
    held = [
        abs(found.value - 5) <= found.upper - found.value
        for series in wanderings(0.5, 2000)
        if (found := estimate([one + 5 for one in series], [1] * 60, 3))
    ]
    assert len(held) == 2000
    assert fmean(held) == pytest.approx(0.95, abs=0.015)
