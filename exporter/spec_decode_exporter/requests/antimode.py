"""How far some numbers are from having fallen into one heap.

Numbers have one heap if their distribution function is convex up to some place and concave from there on
(Hartigan and Hartigan, *The dip test of unimodality*, Annals of Statistics 13, 1985). The depth of the valley
is the least, over all such places m, of the farthest that the empirical function lies above its greatest
convex minorant left of m or below its least concave majorant right of it. It is nearly twice the dip, which
demands more of the two at m, and has a distribution of its own: see ``modes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def antimode_depth(ascending: Sequence[float]) -> float:
    """Return the depth of the valley in one or more ascending numbers, all different: a share of them."""
    mirrored = [-value for value in reversed(ascending)]
    number = len(ascending)
    low, high, least = 1, number, float(number)
    # Left of m the distance grows with m, right of it it shrinks: the least is where they meet.
    while low <= high:
        mode = (low + high) // 2
        left, right = _bulge(ascending, mode), _bulge(mirrored, number - mode + 1)
        least = min(least, max(left, right))
        low, high = (mode + 1, high) if left < right else (low, mode - 1)
    return least / number


def _bulge(ascending: Sequence[float], number: int) -> float:
    """Return how far the first ones are from coming ever closer together: so many would have to move."""
    corners = _minorant(ascending, number)
    farthest = 0.0
    for begin, end in pairwise(corners):
        width = ascending[end] - ascending[begin]
        if not width:
            farthest = max(farthest, float(end - begin))
            continue
        slope, first = (end - begin) / width, ascending[begin]
        interval = (place + 1 - begin - slope * (ascending[place] - first) for place in range(begin, end))
        farthest = max(farthest, *interval)
    return farthest


def _minorant(ascending: Sequence[float], number: int) -> list[int]:
    """Return at which of the first numbers the greatest convex minorant of their distribution bends."""
    corners: list[int] = []
    for place in range(number):
        while len(corners) > 1 and _above(ascending, corners[-2], corners[-1], place):
            corners.pop()
        corners.append(place)
    return corners


def _above(ascending: Sequence[float], begin: int, middle: int, end: int) -> bool:
    """Return whether a place lies above the straight line between its neighbours."""
    first = ascending[begin]
    return (middle - begin) * (ascending[end] - first) >= (end - begin) * (ascending[middle] - first)
