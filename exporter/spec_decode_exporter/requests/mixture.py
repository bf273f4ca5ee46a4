"""Two populations in one: whether requests fall into two heaps by their acceptance.

The test asks how deep the valley is between the heaps (see ``valley``) and holds that against what chance
makes of one heap, at worst: requests whose acceptance is anything between 0 and 1 alike. Chance there is of
three kinds.

- Which requests came: of n requests √n times the depth stays below ``DEEP`` 99 times in 100.
- What was accepted of a request says its own acceptance only so well. That widens a heap and makes two of
  them one, never the other way; requests that say next to nothing are left out, by their tokens. Those do not
  depend on the acceptance; the number of drafts does, and to choose by it would make a valley.
- Whole drafts are accepted more often than parts of them, so that of few drafts some shares are hardly seen.
  Each share is spread over the width of one draft, which fills those gaps. The spread is evenly laid, not
  drawn: the same requests always say the same.

docs/semantics.md has the rates of error that ``benchmarks/modes.py`` measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt
from typing import Final

from spec_decode_exporter.requests.antimode import antimode_depth
from spec_decode_exporter.requests.request_findings import Modes
from spec_decode_exporter.requests.request_speedup import LEAST_REQUESTS

Accepted = tuple[float, int]
"""A request's share A/T, and its drafts D."""

DEEP: Final = 1.05
"""The 0.99 quantile of √n times the depth of uniform numbers is 1.00 to 1.07 from n = 30 to n = 300."""
LEAST_DISTANCE: Final = 0.15
"""Heaps whose means are nearer to each other may be two, but do not matter."""
LEAST_SHARE: Final = 0.1
"""Nor does a heap of fewer requests: p10 and p90 show what is beyond."""
MOST_REQUESTS: Final = 300
"""More are not needed to see heaps that matter; so many are picked evenly, and take 2 ms."""
_GOLDEN: Final = (sqrt(5) - 1) / 2
"""Its multiples, less their whole parts, lie more evenly than those of any other number."""


def modes(requests: Sequence[Accepted]) -> Modes | None:
    """Return the two heaps that requests fall into; None where they do not, or are too few to say."""
    if len(requests) < LEAST_REQUESTS:
        return None
    picked = _picked(requests)
    if antimode_depth(_spread(picked)) * sqrt(len(picked)) <= DEEP:
        return None
    found = _split(sorted(share for share, _ in requests))
    apart = found.high_mean - found.low_mean >= LEAST_DISTANCE
    return found if apart and LEAST_SHARE <= found.low_share <= 1 - LEAST_SHARE else None


def _picked(requests: Sequence[Accepted]) -> list[Accepted]:
    most = min(len(requests), MOST_REQUESTS)
    return [requests[place * len(requests) // most] for place in range(most)]


def _spread(requests: Sequence[Accepted]) -> list[float]:
    """Return the shares, ascending, each moved by less than half a draft."""
    places = enumerate(sorted(requests))
    return sorted(share + (place * _GOLDEN % 1 - 0.5) / drafts for place, (share, drafts) in places)


def _split(ascending: Sequence[float]) -> Modes:
    """Return the two parts that differ most between them: Otsu's threshold, or k-means of two."""
    number, below = len(ascending), list(accumulate(ascending))
    total = below[-1]

    def between(low: int) -> float:
        """Return the variance between the means, but for a factor that is always the same."""
        return (below[low - 1] * number - total * low) ** 2 / (low * (number - low))

    low = max(range(1, number), key=between)
    return Modes(low / number, below[low - 1] / low, (total - below[low - 1]) / (number - low))
