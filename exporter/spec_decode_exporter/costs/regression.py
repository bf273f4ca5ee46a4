"""Weighted least squares with instruments, from sums: they add up, fade, and fit into the state file.

The sums are the Gram matrix Σ w·u·uᵀ of all variables u: regressors X, instruments Z and the outcome y. The
coefficients solve Zᵀ·W·X·β = Zᵀ·W·y; where a regressor contains the noise of y, an instrument that does not
stands for it (J. Wooldridge, *Econometric Analysis of Cross Section and Panel Data*, 2010, section 5.1). With
Z = X these are least squares. The matrix is inverted in place by sweeps (J. H. Goodnight, "A tutorial on the
SWEEP operator", The American Statistician 33, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, starmap
from math import sqrt
from operator import mul
from typing import Final, NamedTuple

Matrix = list[list[float]]
_OWN_VARIATION: Final = 1e-8  # share of its sum of squares that a regressor must have beside the others


class Fit(NamedTuple):
    """A fit; a regressor without variation of its own has the coefficient 0."""

    coefficients: list[float]
    inverse: Matrix  # (ZᵀWX)⁻¹
    instruments: Matrix  # ZᵀWZ
    variance: float  # variance of a residual of weight 1
    degrees: float  # degrees of freedom of that variance

    def ratio(self, regressor: int) -> tuple[float, float]:
        """Return a coefficient over the first one, and its standard error by the delta method."""
        first, size = self.coefficients[0], len(self.coefficients)
        value = self.coefficients[regressor] / first
        gradient = [float(place == regressor) - value * (place == 0) for place in range(size)]
        row = [_dot(gradient, column) for column in zip(*self.inverse, strict=True)]
        spread = max(0.0, _dot(row, [_dot(row, line) for line in self.instruments]))
        return value, sqrt(self.variance * spread) / abs(first)


def upper_triangle(observed: Sequence[float], weight: float) -> list[float]:
    """Return the upper triangle of w·u·uᵀ of one observation, row by row."""
    root = sqrt(weight)
    return list(starmap(mul, combinations_with_replacement([root * value for value in observed], 2)))


def gram_matrix(triangle: Sequence[float], size: int) -> Matrix:
    """Return the symmetric matrix with this upper triangle."""
    rows: Matrix = []
    begin = 0
    for place in range(size):
        end = begin + size - place
        rows.append([*(row[place] for row in rows), *triangle[begin:end]])
        begin = end
    return rows


def added(gram: Matrix, variable: int, other: int, factor: float) -> Matrix:
    """Return the Gram matrix after ``factor`` times another variable is added to a variable."""
    rows = list(gram)
    rows[variable] = [own + factor * its for own, its in zip(gram[variable], gram[other], strict=True)]
    for place, row in enumerate(rows):
        rows[place] = [*row[:variable], row[variable] + factor * row[other], *row[variable + 1 :]]
    return rows


def deviation(gram: Matrix, variable: int) -> float:
    """Return the standard deviation of a variable; the first one is the constant 1."""
    mean = gram[0][variable] / gram[0][0]
    return sqrt(max(0.0, gram[variable][variable] / gram[0][0] - mean * mean))


def fit(
    gram: Matrix, regressors: Sequence[int], instruments: Sequence[int], outcome: int, observations: float
) -> Fit | None:
    """Fit a variable by others, each with the instrument at the same place.

    None if there are no more observations than regressors.
    """
    size = range(len(regressors))
    swept = [[gram[row][column] for column in regressors] for row in instruments]
    known = []
    for place in size:
        if swept[place][place] > _OWN_VARIATION * gram[instruments[place]][regressors[place]]:
            swept = _sweep(swept, place)
            known.append(place)
    degrees = observations - len(known)
    if not known or degrees <= 0:
        return None
    inverse = [[swept[row][column] * (row in known and column in known) for column in size] for row in size]
    coefficients = [_dot(line, [gram[row][outcome] for row in instruments]) for line in inverse]
    explained = [gram[outcome][column] for column in regressors]
    again = [_dot(coefficients, [gram[row][column] for column in regressors]) for row in regressors]
    squares = gram[outcome][outcome] - 2 * _dot(coefficients, explained) + _dot(coefficients, again)
    used = [[gram[row][column] for column in instruments] for row in instruments]
    return Fit(coefficients, inverse, used, max(0.0, squares) / degrees, degrees)


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
