"""From sums over requests to what they have in common."""

from __future__ import annotations

from spec_decode_exporter.requests.percentiles import percentiles
from spec_decode_exporter.requests.request_findings import Summary
from spec_decode_exporter.requests.request_speedup import speedup_estimate
from spec_decode_exporter.requests.request_sums import Sums


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
        evaluated=sums.pay.requests,
        rejected=sums.rejected,
        repetitive=sums.repetitive,
    )
