"""Sums and histograms of the requests of a group since the exporter's start, for counters."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final, NamedTuple

from spec_decode_exporter.requests.record import RequestRecord

ACCEPTANCE_RATIO_BOUNDS: Final = (0.05, *(tenth / 10 for tenth in range(1, 10)), 0.95, 1.0)
ACCEPTANCE_LENGTH_BOUNDS: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0)
"""In tokens; K tokens give at most 1 + K, and K rarely exceeds 15."""


@dataclass(frozen=True, slots=True)
class RequestHistogram:
    """Histogram over requests since the exporter's start."""

    upper_bounds: tuple[float, ...]
    """Ascending; a value equal to a bound is below it. The label `le` of the metric."""
    counts: tuple[int, ...]
    """Between two bounds, not cumulative; the last above every bound."""
    sum: float = 0.0
    """Sum of the values."""

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    def with_value(self, value: float) -> RequestHistogram:
        """Return the histogram with one more value."""
        counts = list(self.counts)
        counts[bisect_left(self.upper_bounds, value)] += 1
        return RequestHistogram(self.upper_bounds, tuple(counts), self.sum + value)


def _empty(bounds: tuple[float, ...]) -> RequestHistogram:
    return RequestHistogram(bounds, (0,) * (len(bounds) + 1))


class RequestTotals(NamedTuple):
    """Sums over the requests of a group since the exporter's start."""

    requests: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    acceptance_ratio_histogram: RequestHistogram = _empty(ACCEPTANCE_RATIO_BOUNDS)
    """Requests that drafted, by A/T."""
    acceptance_length_tokens_histogram: RequestHistogram = _empty(ACCEPTANCE_LENGTH_BOUNDS)
    """Requests by 1 + A/D."""

    def with_request(self, request: RequestRecord) -> RequestTotals:
        """Return the sums with one more request."""
        drafts, tokens, accepted = request.drafts, request.draft_tokens, request.accepted_tokens
        ratios, lengths = self.acceptance_ratio_histogram, self.acceptance_length_tokens_histogram
        return RequestTotals(
            *(self.requests + 1, self.drafts + drafts),
            *(self.draft_tokens + tokens, self.accepted_tokens + accepted),
            ratios.with_value(accepted / tokens) if tokens else ratios,
            lengths.with_value(1 + accepted / drafts) if drafts else lengths,
        )
