"""Ratios counted by twentieths: what a histogram is drawn of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PARTS: Final = 20
BOUNDS: Final = tuple(part / PARTS for part in range(PARTS + 1))
"""Where each part begins, and where the last one ends."""


def twentieths(ratios: Iterable[float]) -> tuple[int, ...]:
    """Count ratios from 0 to 1 by twentieths; a ratio on a bound belongs to the part above, 1 to the last."""
    counts = [0] * PARTS
    for ratio in ratios:
        counts[min(int(ratio * PARTS), PARTS - 1)] += 1
    return tuple(counts)
