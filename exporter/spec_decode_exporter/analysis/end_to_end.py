"""Speed-up of whole requests: the time to first token, which drafts do not shorten, and decoding.

P is the mean time to first token and D the mean decode time of a request, 1 with speculation and 0 without,
S the speed-up of decoding. A request takes P1 + D1. Without speculation it would take P0 + D0, with
D0 = S·D1. So requests are faster by

    (P0 + S·D1) / (P1 + D1)

This is the ratio of mean times: of the sums over all requests, not the mean of each request's ratio. P0 is
that of a baseline. If none is known, P0 = P1, and the ratio is w_f + w_d·S with the shares w_f and w_d of the
requests' time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from operator import add
from typing import Final

from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.statistics.ratio_bounds import cosines, grouped, ratio_estimate
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.request_time import request_time
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.ledger import NANO, Window

BASELINE_ERROR: Final = 0.10
"""Relative error of a baseline's time to first token: it is of another day."""
COMPARABLE_PROMPTS: Final = 1.25
"""A baseline is comparable if the mean prompt lengths differ by at most this factor."""
COMPARABLE_LOAD: Final = 2.0
"""A baseline is comparable if the running requests differ by at most this factor."""

_PAYS: Final = (Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL)
"""Verdicts that a cap lowers, ascending."""


class EndToEndBasis(StrEnum):
    """Source of the time to first token without speculation; the value is the ``basis`` label."""

    SAME_FIRST_TOKEN = "same_first_token"  # noqa: S105 - a token of text
    """None is known: that with speculation. The gain is then an upper limit, unless requests queue."""
    BASELINE = "baseline"
    """Requests of the same model without speculation."""


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """Speed-up of whole requests in one window."""

    value: float
    basis: EndToEndBasis
    bounds: Estimate | None
    """95 % bounds; None if the window, or the speed-up of decoding, has none."""

    @property
    def is_slower(self) -> bool:
        """Return whether requests are slower than a baseline, statistically significant (95 %)."""
        is_measured = self.basis is EndToEndBasis.BASELINE
        return is_measured and self.bounds is not None and self.bounds.upper < 1


def end_to_end(
    window: Window, speedup: float | None, bounds: Estimate | None, baseline: RequestBaseline | None = None
) -> EndToEnd | None:
    """Return the speed-up of whole requests; None if the speed-up or the requests' time is unknown.

    Args:
        window: Window with drafts.
        speedup: S, the speed-up of decoding.
        bounds: Bounds of S.
        baseline: Requests without speculation; ignored if they are not comparable.
    """
    time = request_time(window)
    if time is None or speedup is None:
        return None
    requests = window[Counter.FIRST_TOKENS] or 0
    if baseline is None or not is_comparable(baseline, window):
        value = (time.first_token + speedup * time.decoding) / time.total
        return EndToEnd(value, EndToEndBasis.SAME_FIRST_TOKEN, _bounds(window, value, bounds, None))
    first_token = baseline.first_token_seconds
    value = (first_token * requests + speedup * time.decoding) / time.total
    return EndToEnd(value, EndToEndBasis.BASELINE, _bounds(window, value, bounds, first_token))


def is_comparable(baseline: RequestBaseline, window: Window) -> bool:
    """Return whether a baseline had similar prompts and a similar load; unknown ones count as similar."""
    prompts = ratio(window[Counter.PROMPT_TOKENS], window[Counter.FIRST_TOKENS])
    running = mean(window, Gauge.RUNNING_REQUESTS)
    return _are_within(COMPARABLE_PROMPTS, prompts, baseline.prompt_tokens) and _are_within(
        COMPARABLE_LOAD, running, baseline.running_requests
    )


def capped(verdict: Verdict, request: EndToEnd | None, policy: SpeedupPolicy) -> Verdict:
    """Return the verdict, lowered to that of the whole request: see docs/explanation/semantics.md.

    The lower bound of the request's speed-up limits verdicts that say that speculation pays, with the same
    thresholds. Requests that are significantly slower than their baseline are at most poor.
    """
    if request is None or request.bounds is None:
        return verdict
    if request.is_slower and verdict not in (Verdict.HARMFUL, Verdict.INSUFFICIENT):
        return Verdict.POOR
    if verdict not in _PAYS:
        return verdict
    ends = (policy.harmful, policy.marginal, policy.healthy)
    highest = sum(request.bounds.lower >= end for end in ends)
    return _PAYS[min(_PAYS.index(verdict), highest)]


def _bounds(
    window: Window, value: float, speedup: Estimate | None, first_token: float | None
) -> Estimate | None:
    """Return the bounds: the lower one at the lower bounds of S and P0, the upper one at the upper bounds.

    ``first_token`` is P0 of a baseline in seconds; None: P0 = P1.
    """
    if speedup is None:
        return None
    column = grouped(window).counter
    first, decoding = column(Counter.FIRST_TOKEN_NANOSECONDS), column(Counter.DECODE_NANOSECONDS)
    total = list(map(add, first, decoding))
    number, started = cosines(window), column(Counter.FIRST_TOKENS)

    def at(gain: float, error: float) -> Estimate | None:
        """Return the ratio at exact S and P0, with the error of the sums over the window."""
        if first_token is None:
            unchanged: Sequence[float] = first
            lowest, highest = min(1.0, gain), max(1.0, gain)
        else:
            each = first_token * error * NANO
            unchanged, lowest, highest = [each * requests for requests in started], 0.0, inf
        without = [before + gain * decoded for before, decoded in zip(unchanged, decoding, strict=True)]
        return ratio_estimate(without, total, number, lowest=lowest, highest=highest)

    low, high = at(speedup.lower, 1 - BASELINE_ERROR), at(speedup.upper, 1 + BASELINE_ERROR)
    if low is None or high is None:
        return None
    return Estimate(
        value,
        lower=min(value, low.lower),
        upper=max(value, high.upper),
        standard_error=max(low.standard_error, high.standard_error),
        degrees=min(low.degrees, high.degrees),
    )


def _are_within(factor: float, one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return True
    low, high = sorted((one, other))
    return high <= factor * low
