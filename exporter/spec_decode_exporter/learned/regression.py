"""Weighted least squares from sums: they add up, fade, and fit into the state file.

The sums are the Gram matrix of the regressors and of the outcome, Σ w·u·uᵀ with u = (1, z1, …, y). Sweeping
its regressors leaves (ZᵀWZ)⁻¹, the coefficients and the sum of squared residuals in place (J. H. Goodnight,
"A tutorial on the SWEEP operator", The American Statistician 33, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final, NamedTuple

Matrix = list[list[float]]
_OWN_VARIATION: Final = 1e-8
"""Variance that a regressor must have beside the others: relative to its own size and to the constant's."""


class Fit(NamedTuple):
    """Weighted least squares; a regressor without variation of its own has the coefficient 0."""

    coefficients: list[float]
    inverse: Matrix
    """(ZᵀWZ)⁻¹."""
    variance: float
    """Variance of a residual of weight 1."""
    degrees: float
    """Degrees of freedom of that variance."""

    def ratio(self, regressor: int) -> tuple[float, float]:
        """Return a coefficient over the first one, and its standard error by the delta method."""
        first, inverse = self.coefficients[0], self.inverse
        value = self.coefficients[regressor] / first
        spread = inverse[regressor][regressor] + value * (value * inverse[0][0] - 2 * inverse[0][regressor])
        return value, sqrt(max(0.0, self.variance * spread)) / abs(first)


def upper_triangle(observed: Sequence[float], weight: float) -> list[float]:
    """Return the upper triangle of w·u·uᵀ of one observation, row by row."""
    triangle: list[float] = []
    for place, value in enumerate(observed):
        weighted = weight * value
        triangle += [weighted * other for other in observed[place:]]
    return triangle


def gram_matrix(triangle: Sequence[float], size: int) -> Matrix:
    """Return the symmetric matrix with this upper triangle."""
    rows: Matrix = []
    begin = 0
    for place in range(size):
        end = begin + size - place
        rows.append([*(row[place] for row in rows), *triangle[begin:end]])
        begin = end
    return rows


def combined(gram: Matrix, combinations: Matrix) -> Matrix:
    """Return the Gram matrix of other regressors; each row combines the present ones: M·G·Mᵀ."""
    products = [[_dot(row, column) for column in gram] for row in combinations]
    return [[_dot(product, row) for row in combinations] for product in products]


def selected(gram: Matrix, places: Sequence[int]) -> Matrix:
    """Return the Gram matrix of some of the regressors."""
    return [[gram[row][column] for column in places] for row in places]


def deviation(gram: Matrix, regressor: int) -> float:
    """Return the standard deviation of a regressor; the first one is the constant 1."""
    mean = gram[0][regressor] / gram[0][0]
    return sqrt(max(0.0, gram[regressor][regressor] / gram[0][0] - mean * mean))


def fit(gram: Matrix, observations: float) -> Fit | None:
    """Fit the last row by the others; None if there are no more observations than regressors."""
    size, swept = len(gram) - 1, gram
    known = []
    for place in range(size):
        if swept[place][place] > _OWN_VARIATION * max(gram[place][place], gram[0][0]):
            swept = _sweep(swept, place)
            known.append(place)
    degrees = observations - len(known)
    if not known or degrees <= 0:
        return None
    inverse = [[0.0] * size for _ in range(size)]
    for row in known:
        for column in known:
            inverse[row][column] = swept[row][column]
    coefficients = [swept[place][size] if place in known else 0.0 for place in range(size)]
    return Fit(coefficients, inverse, max(0.0, swept[size][size]) / degrees, degrees)


def _sweep(matrix: Matrix, pivot: int) -> Matrix:
    divisor = matrix[pivot][pivot]
    scaled = [value / divisor for value in matrix[pivot]]
    swept = []
    for row in matrix:
        factor = row[pivot]
        reduced = [value - factor * other for value, other in zip(row, scaled, strict=True)]
        reduced[pivot] = -factor / divisor
        swept.append(reduced)
    scaled[pivot] = 1 / divisor
    swept[pivot] = scaled
    return swept


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
