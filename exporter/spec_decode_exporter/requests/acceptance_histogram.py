"""Ratios counted by twentieths: what a histogram is drawn of."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

PARTS: Final = 20
BOUNDS: Final = tuple(part / PARTS for part in range(PARTS + 1))
"""Where each part begins, and where the last one ends."""


def acceptance_histogram(ascending: Sequence[float]) -> tuple[int, ...]:
    """Count ratios from 0 to 1 by twentieths; a ratio on a bound belongs to the part above, 1 to the last."""
    below = [0, *(bisect_left(ascending, bound) for bound in BOUNDS[1:-1]), len(ascending)]
    return tuple(end - begin for begin, end in pairwise(below))
