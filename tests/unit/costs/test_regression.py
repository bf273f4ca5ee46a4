"""Weighted least squares with instruments from sums: against their definition, and what is refused."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.costs.regression import fit, gram_matrix, upper_triangle

NUMBERS = st.floats(-3, 3).map(lambda value: round(value, 3))
POLLS = st.lists(st.tuples(st.floats(0.5, 100), NUMBERS, NUMBERS, NUMBERS), min_size=6, max_size=20)
"""Weight, two regressors, outcome."""


def fitted(polls, regressors=(0, 1, 2)):
    triangles = [upper_triangle((1.0, *rest), weight) for weight, *rest in polls]
    gram = gram_matrix([sum(column) for column in zip(*triangles, strict=True)], 4)
    return fit(gram, regressors, regressors, 3, len(polls))


@given(POLLS)
def test_residuals_are_orthogonal_to_each_regressor(polls):
    constant, first, second = fitted(polls).coefficients
    rest = [(w, y - constant - first * a - second * b, a, b) for w, a, b, y in polls]
    scale = sum(w for w, *_ in polls) * 100
    for regressor in ((lambda _a, _b: 1.0), (lambda a, _b: a), (lambda _a, b: b)):
        assert sum(w * e * regressor(a, b) for w, e, a, b in rest) == pytest.approx(0, abs=1e-6 * scale)


def test_the_error_of_a_ratio_is_that_of_the_delta_method():
    polls = [(1.0, x, 0.0, 4 + x + (0.1 if place % 2 else -0.1)) for place, x in enumerate((0, 0, 1, 1) * 3)]
    found = fitted(polls, (0, 1))
    value, error = found.ratio(1)
    # The means of both sides, 4 and 5, have the variance 0.01·12/(12 - 2)/6 each.
    mean = 0.01 * 12 / 10 / 6
    assert value == pytest.approx(0.25)
    assert error == pytest.approx(sqrt(mean * (1 + (5 / 4) ** 2)) / 4)


@pytest.mark.parametrize(
    "polls", [[(1.0, 2.0, 1.0, 3.0)] * 9, [(1.0, float(x), 2.0 * x, 1.0 + x) for x in range(9)]]
)
def test_a_regressor_without_variation_of_its_own_counts_as_0(polls):
    found = fitted(polls)
    assert found.coefficients[2] == found.inverse[2][2] == 0
    assert found.ratio(2) == (0, 0)


def test_no_more_observations_than_regressors_are_refused():
    polls = [(1.0, x, x * x, x) for x in (0.0, 1.0, 3.0)]
    assert fitted(polls) is None
    assert fitted([*polls, (1.0, 4.0, 1.0, 2.0)]).degrees == 1
    assert fit([[0.0] * 3 for _ in range(3)], (0, 1), (0, 1), 2, 9) is None
