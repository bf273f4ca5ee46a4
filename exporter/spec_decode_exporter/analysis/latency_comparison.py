"""Quantiles of the server's latencies beside those of a baseline without speculation.

Quantiles of a mixture cannot be adjusted to other traffic, as means can. So a baseline of other prompts,
contexts or load is refused. Speculation itself leaves fewer requests running if arrivals are fixed, so the
load is like the baseline's if the arrivals are, or the running requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.end_to_end import COMPARABLE_PROMPTS, are_within
from spec_decode_exporter.costs.baseline import COMPARED, BaselineSummary
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.quantile import (
    LATENCY_QUANTILES,
    Quantile,
    QuantileRatio,
    needed_observations,
    quantile_ratio,
)
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets

COMPARABLE_QUANTILE_LOAD: Final = sqrt(2)
"""Largest ratio of loads: step times then differ by 12 % at most, with an exponent of 1/3."""


class Incomparable(StrEnum):
    """Reason why there is no ratio."""

    PROMPTS = "prompts"
    CONTEXTS = "contexts"
    LOAD = "load"
    OTHER_BUCKETS = "other_buckets"  # the server's buckets have other bounds than in the baseline
    FEW_REQUESTS = "few_requests"  # too few requests for this quantile, now or in the baseline
    WIDE_BUCKETS = "wide_buckets"  # both quantiles are in the first bucket, or one is in the last bucket


class LatencyComparison(NamedTuple):
    """Comparison of an engine's latencies with those of a baseline."""

    baseline: BaselineSummary
    reason: Incomparable | None  # reason against all ratios
    latencies: Mapping[Latency, Mapping[Quantile, QuantileRatio | Incomparable]]
    """Ratio of each quantile to that of the baseline, or the reason against it; empty with the one above."""


def compared_latencies(
    now: Mapping[Latency, Buckets], figures: WindowFigures, baseline: BaselineSummary | None
) -> LatencyComparison | None:
    """Compare the histograms of a window with those of a baseline; None if they have none in common."""
    before = baseline.histograms if baseline else {}
    common = [each for each in COMPARED if each in now and each in before]
    if baseline is None or not common:
        return None
    reason = _reason(figures, baseline)
    ratios = {
        each: {which: _compared(which.share, now[each], before[each]) for which in LATENCY_QUANTILES}
        for each in common
        if reason is None
    }
    return LatencyComparison(baseline, reason, ratios)


def _reason(figures: WindowFigures, baseline: BaselineSummary) -> Incomparable | None:
    """Return why all of a baseline's requests are not comparable; unknown figures count as similar."""
    total = figures.total
    prompts = ratio(total.prompt_tokens, total.first_tokens)
    if not are_within(COMPARABLE_PROMPTS, prompts, baseline.prompt_tokens):
        return Incomparable.PROMPTS
    if not are_within(COMPARABLE_PROMPTS, figures.context_tokens, baseline.context_tokens):
        return Incomparable.CONTEXTS
    arrivals = ratio(total.first_tokens, figures.window.seconds)
    loads = (arrivals, baseline.requests_per_second), (figures.busy_requests, baseline.running_requests)
    known = [each for each in loads if None not in each]
    is_similar = not known or any(are_within(COMPARABLE_QUANTILE_LOAD, *each) for each in known)
    return None if is_similar else Incomparable.LOAD


def _compared(share: float, now: Buckets, before: Buckets) -> QuantileRatio | Incomparable:
    if now.bounds != before.bounds:
        return Incomparable.OTHER_BUCKETS
    if min(now.counts[-1], before.counts[-1]) < needed_observations(share):
        return Incomparable.FEW_REQUESTS
    return quantile_ratio(share, now, before) or Incomparable.WIDE_BUCKETS
