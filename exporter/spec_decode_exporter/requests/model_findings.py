"""Findings about all requests of one model: bimodality, hidden slow requests, acceptance histogram."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isnan
from typing import Final

from spec_decode_exporter.requests.below_break_even import (
    InformativeRequest,
    by_tokens,
    even_sample,
    share_below_break_even,
)
from spec_decode_exporter.requests.mixture import modes
from spec_decode_exporter.requests.request_advice import advice
from spec_decode_exporter.requests.request_aggregate import RequestSums, summary
from spec_decode_exporter.requests.request_findings import GroupKey, ModelFindings, Modes, Summary

MIN_HIDDEN_SHARE: Final = 0.1
"""Any mean hides a smaller share of slow requests."""
BINS: Final = 20
"""Bins of the acceptance histogram."""
BOUNDS: Final = tuple(part / BINS for part in range(BINS + 1))
"""Lower bounds of the bins, and the upper bound of the last."""


def model_findings(
    model_name: str,
    sums: RequestSums,
    groups: Mapping[GroupKey, RequestSums],
) -> ModelFindings:
    """Return the findings about a model's requests, all of which are in ``groups``."""
    model_summary, sample = summary(sums), even_sample(sums.informative)
    model_modes, hidden = _modes(sample), hidden_share(model_summary, sample)
    return ModelFindings(
        model_name,
        model_summary,
        model_modes,
        mixed=model_modes is not None or hidden is not None,
        advice=advice(model_summary, model_modes, groups, hidden=hidden),
        acceptance_counts=acceptance_histogram(sums.ratios),
    )


def hidden_share(model_summary: Summary, sample: Sequence[InformativeRequest]) -> float | None:
    """Return the share of the sample below break-even if it is above a tenth while all together gain.

    None otherwise. This is p10 below break-even, at the lowest possible cost, and the mean above. The sample
    must gain too: the share and the mean are of the same requests.
    """
    speedup = model_summary.speedup_ratio
    if speedup is None or speedup.value <= 1 or not _gain(sample):
        return None
    share = share_below_break_even(sample)
    return share if share > MIN_HIDDEN_SHARE else None


def _gain(requests: Sequence[InformativeRequest]) -> bool:
    """Return whether the requests with a known cost are above break-even together."""
    known = [request for request in requests if not isnan(request.break_even)]
    needed = sum(request.break_even * request.drafts for request in known)
    return sum(request.accepted_tokens for request in known) > needed


def _modes(requests: Sequence[InformativeRequest]) -> Modes | None:
    """Return the two modes of requests with the same K: the most frequent K that is bimodal."""
    for group in by_tokens(requests):
        group_modes = modes([(each.accepted_tokens / each.draft_tokens, each.drafts) for each in group])
        if group_modes is not None:
            return group_modes
    return None


def acceptance_histogram(ascending: Sequence[float]) -> tuple[int, ...]:
    """Count ratios from 0 to 1 in 20 bins; a ratio on a bound belongs to the bin above, 1 to the last."""
    below = [0, *(bisect_left(ascending, bound) for bound in BOUNDS[1:-1]), len(ascending)]
    return tuple(end - begin for begin, end in pairwise(below))
