"""Speed-up of whole requests: the time to first token, which drafts do not shorten, and decoding.

A request takes P1 + D1 with speculation, and P0 + S·D1 without, with S the speed-up of decoding. So requests
are faster by (P0 + S·D1) / (P1 + D1), a ratio of sums over requests. Without a baseline P0 = P1, no bounds.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf, sqrt
from operator import add
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.figures.estimate import Estimate, estimate_of, ratio
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.window.engine_windows import NANO, columns

BASELINE_ERROR: Final = 0.10  # least relative error of a baseline's time to first token: it is of another day
REQUEST_VARIATION: Final = 4.0
"""Assumed standard error of a mean time to first token, times the square root of the requests."""
MIN_LOOKED_UP: Final = 10_000
"""Prompt tokens that are many enough for at least one hit: several blocks of any size."""
MIN_LOST_REQUESTS: Final = 20
"""Requests that are many enough for at least one common beginning, such as a system prompt."""
MIN_HITS: Final = 0.01  # share of prompt tokens from the cache below which a baseline had no hits to lose
COMPARABLE_PROMPTS, COMPARABLE_LOAD = 1.25, 2.0
"""A baseline is comparable if mean prompt lengths and running requests differ by at most these factors."""


class EndToEndBasis(StrEnum):
    """Source of the time to first token without speculation; the value is the ``basis`` label."""

    SAME_FIRST_TOKEN = "same_first_token"  # noqa: S105 - a token of text
    BASELINE = "baseline"


class EndToEnd(NamedTuple):
    """Speed-up of whole requests in one window."""

    value: float
    basis: EndToEndBasis
    bounds: Estimate | None

    @property
    def is_slower(self) -> bool:
        """True if requests are slower than a baseline, statistically significant (95 %)."""
        is_measured = self.basis is EndToEndBasis.BASELINE
        return is_measured and self.bounds is not None and self.bounds.upper < 1

    def capped(self, verdict: Verdict) -> Verdict:
        """Return the verdict; requests that are significantly slower than their baseline are at most poor."""
        return Verdict.POOR if self.is_slower and verdict not in _LOWEST else verdict


_LOWEST: Final = (Verdict.HARMFUL, Verdict.INSUFFICIENT)


def end_to_end(
    figures: WindowFigures, speedup: float | None, bounds: Estimate | None, baseline: BaselineSummary | None
) -> EndToEnd | None:
    """Return the speed-up of whole requests; None if it or their time is unknown.

    Args:
        figures: Figures of a window with drafts.
        speedup: S, the speed-up of decoding.
        bounds: Bounds of S.
        baseline: Requests without speculation; ignored if they are not comparable.
    """
    if speedup is None or figures.request_seconds is None:
        return None
    first, decoding = figures.request_seconds
    basis, known = EndToEndBasis.SAME_FIRST_TOKEN, None
    if baseline is not None and baseline.first_token_seconds and is_comparable(baseline, figures):
        basis, known = EndToEndBasis.BASELINE, baseline
        first = baseline.first_token_seconds * (figures.total.first_tokens or 0)
    value = (first + speedup * decoding) / sum(figures.request_seconds)
    return EndToEnd(value, basis, _bounds(figures, value, bounds, known) if bounds and known else None)


def is_prefix_cache_lost(figures: WindowFigures, baseline: BaselineSummary | None) -> bool:
    """Return whether many look-ups in the prefix cache found nothing, though without speculation some may.

    vLLM counts no look-ups if the prefix cache is disabled.
    """
    total, hits = figures.total, None if baseline is None else baseline.prefix_hit_ratio
    if total.prefix_cache_hits != 0 or (hits is not None and hits < MIN_HITS):
        return False
    looked_up, requests = total.prefix_cache_queries or 0, total.first_tokens or 0
    return looked_up >= MIN_LOOKED_UP and requests >= MIN_LOST_REQUESTS


def first_token_error(requests: float) -> float:
    """Return the relative error of a baseline's mean time to first token over some requests."""
    return max(BASELINE_ERROR, REQUEST_VARIATION / sqrt(requests))


def is_comparable(baseline: BaselineSummary, figures: WindowFigures) -> bool:
    """Return whether a baseline had similar prompts and a similar load; unknown ones count as similar."""
    prompts = ratio(figures.total.prompt_tokens, figures.total.first_tokens)
    running = figures.window.mean.running_requests
    return are_within(COMPARABLE_PROMPTS, prompts, baseline.prompt_tokens) and are_within(
        COMPARABLE_LOAD, running, baseline.running_requests
    )


def _bounds(
    figures: WindowFigures, value: float, speedup: Estimate, baseline: BaselineSummary
) -> Estimate | None:
    """Return the bounds: the lower one at the lower bounds of S and P0, the upper one at the upper bounds."""
    names = ("first_token_nanoseconds", "decode_nanoseconds", "first_tokens")
    first, decoding, started = columns(figures.increments, *names)
    total, mean = list(map(add, first, decoding)), (baseline.first_token_seconds or 0.0) * NANO
    error_of_first = first_token_error(baseline.requests)

    def at(gain: float, first_token: float) -> Estimate | None:
        """Return the ratio at exact S and P0 in nanoseconds, with the error of the sums over the window."""
        without = [
            first_token * each + gain * decoded for each, decoded in zip(started, decoding, strict=True)
        ]
        return estimate_of(without, total, figures.cosines, (0.0, inf))

    low = at(speedup.lower, mean * max(0.0, 1 - error_of_first))
    high = at(speedup.upper, mean * (1 + error_of_first))
    if low is None or high is None:
        return None
    error, degrees = max(low.standard_error, high.standard_error), min(low.degrees, high.degrees)
    return Estimate(value, min(value, low.lower), max(value, high.upper), error, degrees)


def are_within(factor: float, one: float | None, other: float | None) -> bool:
    """Return whether two values differ by at most a factor; an unknown one does not differ."""
    return one is None or other is None or max(one, other) <= factor * min(one, other)
