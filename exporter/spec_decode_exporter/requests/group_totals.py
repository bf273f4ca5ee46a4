"""Totals of a group of requests since the exporter's start, with histograms of acceptance."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from spec_decode_exporter.requests.request_findings import (
    GroupKey,
    GroupTotals,
    RequestHistogram,
    RequestTotals,
)
from spec_decode_exporter.requests.request_record import RequestRecord

ACCEPTANCE_RATIO_BOUNDS: Final = (0.05, *(tenth / 10 for tenth in range(1, 10)), 0.95, 1.0)
ACCEPTANCE_LENGTH_BOUNDS: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0)
"""In tokens; K tokens give at most 1 + K, and K rarely exceeds 15."""


class RequestGroup:
    """A group of requests that are counted together.

    If one of its labels loses its slot, its stored requests belong to the successor.
    """

    __slots__ = ("_key", "successor", "totals")

    def __init__(self, key: GroupKey) -> None:
        self._key = key
        self.successor: RequestGroup | None = None
        self.totals = RunningTotals()

    @property
    def key(self) -> GroupKey:
        """The present key of the group's stored requests."""
        return self._key if self.successor is None else self.successor.key


class RunningTotals:
    """Totals of one group since the start."""

    def __init__(self) -> None:
        self._requests = self._drafts = self._draft_tokens = self._accepted_tokens = 0
        self._ratio = HistogramCounter(ACCEPTANCE_RATIO_BOUNDS)
        self._length = HistogramCounter(ACCEPTANCE_LENGTH_BOUNDS)

    def add(self, request: RequestRecord) -> None:
        """Count a request; one without drafts is not in the histograms."""
        self._requests += 1
        self._drafts += request.drafts
        self._draft_tokens += request.draft_tokens
        self._accepted_tokens += request.accepted_tokens
        if request.draft_tokens:
            self._ratio.observe(request.accepted_tokens / request.draft_tokens)
        if request.drafts:
            self._length.observe(1 + request.accepted_tokens / request.drafts)

    def snapshot(self) -> GroupTotals:
        """Return an immutable copy."""
        return GroupTotals(
            RequestTotals(self._requests, self._drafts, self._draft_tokens, self._accepted_tokens),
            self._ratio.snapshot(),
            self._length.snapshot(),
        )


class HistogramCounter:
    """A histogram that grows."""

    def __init__(self, upper_bounds: Sequence[float]) -> None:
        """Count by ascending bounds, each of which belongs to its bucket."""
        self._upper_bounds = upper_bounds
        self._counts = [0] * (len(upper_bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a request."""
        self._counts[bisect_left(self._upper_bounds, value)] += 1
        self._sum += value

    def snapshot(self) -> RequestHistogram:
        """Return an immutable copy."""
        return RequestHistogram(self._upper_bounds, tuple(self._counts), self._sum)
