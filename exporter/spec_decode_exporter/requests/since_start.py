"""What the requests of one group add up to since the exporter's start."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from spec_decode_exporter.figures.acceptance import acceptance_length
from spec_decode_exporter.requests.request import Request
from spec_decode_exporter.requests.request_findings import GroupTotals, RequestHistogram, RequestTotals

ACCEPTANCE_RATIO_BOUNDS: Final = (0.05, *(tenth / 10 for tenth in range(1, 10)), 0.95, 1.0)
ACCEPTANCE_LENGTH_BOUNDS: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0)
"""In tokens; K tokens give 1 + K at most, and more than 15 are hardly drafted."""


class GrowingHistogram:
    """A histogram as it grows."""

    def __init__(self, upper_bounds: Sequence[float]) -> None:
        """Count by ascending bounds, each of which belongs to its bucket."""
        self._upper_bounds = upper_bounds
        self._counts = [0] * (len(upper_bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a request."""
        self._counts[bisect_left(self._upper_bounds, value)] += 1
        self._sum += value

    def histogram(self) -> RequestHistogram:
        """Return it as it is now."""
        return RequestHistogram(self._upper_bounds, tuple(self._counts), self._sum)


class SinceStart:
    """One group's sums."""

    def __init__(self) -> None:
        self._requests = self._drafts = self._draft_tokens = self._accepted_tokens = 0
        self._ratio = GrowingHistogram(ACCEPTANCE_RATIO_BOUNDS)
        self._length = GrowingHistogram(ACCEPTANCE_LENGTH_BOUNDS)

    def add(self, request: Request) -> None:
        """Count a request; one that did not draft is in the sums only."""
        self._requests += 1
        self._drafts += request.drafts
        self._draft_tokens += request.draft_tokens
        self._accepted_tokens += request.accepted_tokens
        if request.draft_tokens:
            self._ratio.observe(request.accepted_tokens / request.draft_tokens)
        if request.drafts:
            self._length.observe(acceptance_length(request.accepted_tokens / request.drafts))

    def totals(self) -> GroupTotals:
        """Return the sums as they are now."""
        return GroupTotals(
            RequestTotals(self._requests, self._drafts, self._draft_tokens, self._accepted_tokens),
            self._ratio.histogram(),
            self._length.histogram(),
        )
