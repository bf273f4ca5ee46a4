"""Bimodality of requests by their acceptance: two populations in one workload.

A distribution is unimodal if it is convex up to some point and concave from there on (Hartigan and Hartigan,
*The dip test of unimodality*, Annals of Statistics 13, 1985). The antimode depth is the minimum over these
points m of the largest distance of the empirical distribution from its greatest convex minorant left of m and
its least concave majorant right of m. It is nearly twice the dip, which requires more of the two at m, and
has its own distribution.

The test compares the depth with what chance gives for one mode in the worst case: acceptance that is uniform
from 0 to 1. There are three sources of chance.

- Sampling: for n requests, √n times the depth is below ``DEPTH_QUANTILE`` in 99 % of samples.
- A request's acceptance is measured with an error. It widens modes and can merge two, but never splits one.
  Requests with short answers are excluded. The length of an answer does not depend on the acceptance; the
  number of drafts does, and a choice by it would create an antimode.
- Whole drafts are accepted more often than parts of them, so few drafts give few different shares. Each share
  is spread over the width of one draft, which fills the gaps. The spread is even, not random: equal requests
  always give equal results.

docs/explanation/request-statistics.md has its error rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import sqrt
from typing import Final, TypeVar

from spec_decode_exporter.requests.cells import MIN_REQUESTS

Request = TypeVar("Request")
Accepted = tuple[float, int]
"""A request's share A/T, and its drafts D."""

DEPTH_QUANTILE: Final = 1.05
"""The 0.99 quantile of √n times the depth of uniform numbers is 1.00 to 1.07 from n = 30 to n = 300."""
MIN_DISTANCE: Final = 0.15
"""Modes whose means are closer are not relevant."""
MIN_SHARE: Final = 0.1
"""A mode of fewer requests is not relevant: p10 and p90 show them."""
MAX_TESTED: Final = 300
"""Requests in an even sample: enough for relevant modes, and 2 ms of work."""
_GOLDEN: Final = (sqrt(5) - 1) / 2
"""The fractional parts of its multiples are the most evenly distributed."""


@dataclass(frozen=True, slots=True)
class Modes:
    """Two modes of the acceptance of requests with the same number of draft tokens."""

    low_share: float
    """Share of the requests in the lower mode, 0 to 1."""
    low_mean: float
    """Mean acceptance ratio of the lower mode."""
    high_mean: float
    requests: int
    """Requests of both modes: those with long answers and the same number of draft tokens."""

    @property
    def mean(self) -> float:
        """Mean acceptance ratio of the same requests: between the two."""
        return self.low_share * self.low_mean + (1 - self.low_share) * self.high_mean


def modes(requests: Sequence[Accepted]) -> Modes | None:
    """Return the two modes of the requests; None if unimodal, or if there are too few requests."""
    if len(requests) < MIN_REQUESTS:
        return None
    sample = even_sample(requests, MAX_TESTED)
    if antimode_depth(_spread(sample)) * sqrt(len(sample)) <= DEPTH_QUANTILE:
        return None
    split = _split(sorted(share for share, _ in requests))
    is_distant = split.high_mean - split.low_mean >= MIN_DISTANCE
    return split if is_distant and MIN_SHARE <= split.low_share <= 1 - MIN_SHARE else None


def even_sample(requests: Sequence[Request], most: int) -> list[Request]:
    """Return at most ``most`` requests, at even distances."""
    size = min(len(requests), most)
    return [requests[index * len(requests) // size] for index in range(size)]


def _spread(requests: Sequence[Accepted]) -> list[float]:
    """Return the shares, ascending, each shifted by less than half a draft."""
    indexed = enumerate(sorted(requests))
    return sorted(share + (index * _GOLDEN % 1 - 0.5) / drafts for index, (share, drafts) in indexed)


def _split(ascending: Sequence[float]) -> Modes:
    """Return the split with the largest variance between its parts: Otsu's threshold, k-means for k = 2."""
    number, below = len(ascending), list(accumulate(ascending))
    total = below[-1]

    def between(low: int) -> float:
        """Return the variance between the means, up to a constant factor."""
        return (below[low - 1] * number - total * low) ** 2 / (low * (number - low))

    low = max(range(1, number), key=between)
    low_mean, high_mean = below[low - 1] / low, (total - below[low - 1]) / (number - low)
    return Modes(low / number, low_mean, high_mean, number)


def antimode_depth(ascending: Sequence[float]) -> float:
    """Return the antimode depth of one or more ascending, different numbers, as a share of them."""
    mirrored = [-value for value in reversed(ascending)]
    number = len(ascending)
    low, high, minimum = 1, number, float(number)
    # Left of m the distance increases with m, right of m it decreases: search the crossing.
    while low <= high:
        mode = (low + high) // 2
        left, right = _distance(ascending, mode), _distance(mirrored, number - mode + 1)
        minimum = min(minimum, max(left, right))
        low, high = (mode + 1, high) if left < right else (low, mode - 1)
    return minimum / number


def _distance(ascending: Sequence[float], number: int) -> float:
    """Return the distance of the first numbers from their greatest convex minorant, in numbers."""
    corners = _minorant(ascending, number)
    maximum = 0.0
    for begin, end in pairwise(corners):
        width = ascending[end] - ascending[begin]
        if not width:
            maximum = max(maximum, float(end - begin))
            continue
        slope, first = (end - begin) / width, ascending[begin]
        distances = (index + 1 - begin - slope * (ascending[index] - first) for index in range(begin, end))
        maximum = max(maximum, *distances)
    return maximum


def _minorant(ascending: Sequence[float], number: int) -> list[int]:
    """Return the indices of the corners of the first numbers' greatest convex minorant."""
    corners: list[int] = []
    for index in range(number):
        while len(corners) > 1 and _is_above(ascending, corners[-2], corners[-1], index):
            corners.pop()
        corners.append(index)
    return corners


def _is_above(ascending: Sequence[float], begin: int, middle: int, end: int) -> bool:
    """Return whether the middle point is on or above the straight line between the other two."""
    first = ascending[begin]
    return (middle - begin) * (ascending[end] - first) >= (end - begin) * (ascending[middle] - first)
