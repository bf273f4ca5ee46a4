from __future__ import annotations

import random
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.student_t import t_quantile
from spec_decode_exporter.reports.reference.comparison import difference
from spec_decode_exporter.reports.reference_document import MeasuredFigure

VALUES = st.floats(-1e4, 1e4)
WIDTHS = st.floats(0, 1e3)
DEGREES = st.integers(2, 12)


def sure(value, error, degrees=12):
    """Return a figure with an error and its bounds."""
    half = t_quantile(degrees) * error
    return MeasuredFigure(
        value=value, lower=value - half, upper=value + half, standard_error=error, degrees=degrees
    )


def between(value, below, above):
    """Return a figure with bounds and without an error."""
    return MeasuredFigure(value=value, lower=value - below, upper=value + above)


FIGURES = st.builds(sure, VALUES, WIDTHS, DEGREES) | st.builds(between, VALUES, WIDTHS, WIDTHS)
FIGURES_OF_MANY_DEGREES = st.builds(sure, VALUES, WIDTHS) | st.builds(between, VALUES, WIDTHS, WIDTHS)


def test_variances_add_up_by_hand():
    """0.3² + 0.4² = 0.5², and 2.064 of Student's with the 24 degrees that two of 12 have, near enough."""
    found = difference(sure(10.0, 0.3), sure(8.0, 0.4))
    degrees = 0.25**2 / (0.09**2 / 12 + 0.16**2 / 12)
    assert (found.change, degrees) == (-2.0, pytest.approx(22.26, abs=0.01))
    assert found.upper - found.change == found.change - found.lower == pytest.approx(2.074 * 0.5)


def test_equal_errors_of_few_degrees_have_twice_as_many():
    found = difference(sure(0.0, 1.0, 3), sure(0.0, 1.0, 3))
    assert found.upper == pytest.approx(2.447 * sqrt(2))


def test_distances_of_two_quantiles_add_up_each_in_its_own_direction():
    """A rise is largest from the lower bound before to the upper bound after."""
    found = difference(between(10.0, 3.0, 1.0), between(20.0, 2.0, 4.0))
    assert (found.change, found.lower, found.upper) == (10.0, 10 - sqrt(4 + 1), 10 + 5.0)


@pytest.mark.parametrize("one", [sure(1.0, 0.1), between(1.0, 0.1, 0.1), MeasuredFigure(value=1.0)])
def test_without_bounds_on_one_side_there_are_none_of_the_difference(one):
    other = MeasuredFigure(value=2.0)
    for found in (difference(one, other), difference(other, one)):
        assert (abs(found.change), found.lower, found.upper) == (1.0, None, None)
        assert not found.is_beyond_chance


def test_two_certain_figures_differ_certainly():
    found = difference(sure(4.0, 0.0), sure(4.0, 0.0))
    assert (found.lower, found.change, found.upper) == (0, 0, 0)
    assert not found.is_beyond_chance
    assert difference(sure(4.0, 0.0), sure(5.0, 0.0)).is_beyond_chance


@given(FIGURES, FIGURES)
def test_bounds_contain_the_change(before, after):
    found = difference(before, after)
    assert found.lower <= found.change <= found.upper


@given(FIGURES, FIGURES)
def test_swapped_measurements_have_the_opposite_difference(before, after):
    one, two = difference(before, after), difference(after, before)
    assert one.change == -two.change
    assert one.lower == pytest.approx(-two.upper, abs=1e-6)


@given(FIGURES_OF_MANY_DEGREES, FIGURES_OF_MANY_DEGREES)
def test_the_error_of_a_difference_is_between_the_larger_error_and_the_sum(before, after):
    found = difference(before, after)
    widths = [each.upper - each.lower for each in (before, after)]
    assert max(widths) * 0.94 - 1e-6 <= found.upper - found.lower <= sum(widths) + 1e-6


@given(FIGURES, FIGURES, st.floats(0.01, 100))
def test_it_has_the_figures_unit(before, after, factor):
    scaled = [
        MeasuredFigure(
            **{name: value and (value if name == "degrees" else value * factor) for name, value in each}
        )
        for each in (before, after)
    ]
    found, other = difference(before, after), difference(*scaled)
    assert other.lower == pytest.approx(found.lower * factor, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("degrees", [(3, 3), (3, 12), (12, 12)])
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_bounds_hold_in_95_of_100_differences(degrees, ratio):
    """Means of B independent normal figures have errors of B degrees, as those of B cosines have.

    Of 4000 differences a share of 95 % is known to 0.7 points. Welch's degrees are an approximation, and are
    rounded down: with few and unequal ones it is a little more.
    """
    dice, held = random.Random(f"{degrees}{ratio}"), 0
    for _ in range(4000):
        figures = []
        for spread, number in zip((1.0, ratio), degrees, strict=True):
            waves = [dice.gauss(0, spread) for _ in range(number)]
            error = sqrt(sum(wave**2 for wave in waves) / number)
            figures.append(sure(dice.gauss(0, spread), error, number))
        found = difference(*figures)
        held += found.lower <= 0 <= found.upper
    assert 0.94 <= held / 4000 <= 0.985
