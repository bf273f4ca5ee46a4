"""Student's t, and the degrees of freedom of a sum of variances."""

from math import gamma, pi, sqrt

import pytest

from spec_decode_exporter.figures.estimate import MAX_COSINES
from spec_decode_exporter.figures.student_t import T_QUANTILES, t_quantile, welch


def test_the_table_has_students_quantiles():
    for degrees, quantile in enumerate(T_QUANTILES, start=1):
        width = quantile / 4000
        scale = gamma((degrees + 1) / 2) / sqrt(degrees * pi) / gamma(degrees / 2)
        squares = (((place + 0.5) * width) ** 2 for place in range(4000))
        densities = (scale * (1 + square / degrees) ** (-(degrees + 1) / 2) for square in squares)
        half = sum(densities) * width
        # Half a unit of the third digit is as much as 2.5e-5.
        assert half == pytest.approx(0.475, abs=2.5e-5), degrees
    assert len(T_QUANTILES) == 2 * MAX_COSINES


# Quantiles of many degrees are found by halving, of the density above.
@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(0.2, 12.706), (1, 12.706), (2, 4.303), (12, 2.179), (12.9, 2.179), (24, 2.064), (25, 2.059539), (29.9, 2.045230), (59, 2.000995), (1e9, 1.959964)],
)  # fmt: skip
def test_student_s_t(degrees, quantile):
    assert t_quantile(degrees) == pytest.approx(quantile, abs=6e-6)


@pytest.mark.parametrize(
    ("variances", "degrees", "expected"),
    [
        ([9.0, 16.0], [12, 12], 625 / (81 + 256) * 12),
        ([1.0, 0.0], [2, 12], 2.0),
        ([0.0, 0.0], [3, 12], 15.0),  # without variation they are the sum
    ],
)
def test_the_interval_of_a_sum_has_the_degrees_of_welch(variances, degrees, expected):
    error, half = welch([sqrt(variance) for variance in variances], degrees)
    assert error == pytest.approx(sqrt(sum(variances)))
    assert half == pytest.approx(t_quantile(expected) * error)
