"""From sums over requests to what they have in common."""

from __future__ import annotations

from exporter.requests.findings import Summary
from exporter.requests.pay import speedup_estimate
from exporter.requests.percentiles import percentiles
from exporter.requests.sums import Sums


def summary(sums: Sums) -> Summary:
    """Return what the requests have in common."""
    return Summary(
        totals=sums.totals,
        acceptance_ratio=percentiles(sums.ratios),
        mean_acceptance_ratio=sum(sums.ratios) / len(sums.ratios) if sums.ratios else None,
        acceptance_length_tokens=percentiles(sums.lengths),
        time_per_output_token_seconds=percentiles(sums.seconds_per_token),
        speedup_ratio=speedup_estimate(sums.pay),
        below_break_even=sums.pay.below_break_even,
        judged=sums.pay.requests,
        rejected=sums.rejected,
        repetitive=sums.repetitive,
    )
