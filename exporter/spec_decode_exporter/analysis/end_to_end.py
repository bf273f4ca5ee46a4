"""Speed-up of whole requests: the time to first token, which drafts do not shorten, and decoding.

A request takes P1 + D1 with speculation, and P0 + S·D1 without, with S the speed-up of decoding. So requests
are faster by (P0 + S·D1) / (P1 + D1), a ratio of sums over requests. Without a baseline, P0 = P1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from operator import add
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import PAYING, Verdict
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate, estimate_of, ratio
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.window.history import NANO

BASELINE_ERROR: Final = 0.10
"""Relative error of a baseline's time to first token: it is of another day."""
COMPARABLE_PROMPTS, COMPARABLE_LOAD = 1.25, 2.0
"""A baseline is comparable if mean prompt lengths and running requests differ by at most these factors."""


@dataclass(frozen=True, slots=True)
class RequestBaseline:
    """Mean request of the same model without speculation."""

    first_token_seconds: float
    """P0: mean time to first token in seconds, time in the queue included; above 0."""
    prefix_hit_ratio: float | None
    """Share of prompt tokens that the prefix cache held, between 0 and 1; None if not looked up."""
    prompt_tokens: float | None = None
    """Mean tokens of a prompt; None if unknown. A baseline with other prompts is not comparable."""
    running_requests: float | None = None
    """Mean running requests; None if unknown."""


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

    def capped(self, verdict: Verdict, policy: SpeedupPolicy) -> Verdict:
        """Return the verdict, lowered to that of whole requests by their lower bound.

        Requests that are significantly slower than their baseline are at most poor.
        """
        if self.bounds is None:
            return verdict
        if self.is_slower and verdict not in (Verdict.HARMFUL, Verdict.INSUFFICIENT):
            return Verdict.POOR
        capped = (Verdict.POOR, *PAYING)
        if verdict not in capped:
            return verdict
        ends = (policy.harmful, policy.marginal, policy.healthy)
        highest = sum(self.bounds.lower >= end for end in ends)
        return capped[min(capped.index(verdict), highest)]


def end_to_end(
    figures: WindowFigures, speedup: float, bounds: Estimate | None, baseline: RequestBaseline | None
) -> EndToEnd | None:
    """Return the speed-up of whole requests; None if their time is unknown.

    Args:
        figures: Figures of a window with drafts.
        speedup: S, the speed-up of decoding.
        bounds: Bounds of S.
        baseline: Requests without speculation; ignored if they are not comparable.
    """
    if figures.request_seconds is None:
        return None
    first, decoding = figures.request_seconds
    basis, waited = EndToEndBasis.SAME_FIRST_TOKEN, None
    if baseline is not None and is_comparable(baseline, figures):
        basis, waited = EndToEndBasis.BASELINE, baseline.first_token_seconds
        first = waited * (figures.total.first_tokens or 0)
    value = (first + speedup * decoding) / sum(figures.request_seconds)
    return EndToEnd(value, basis, None if bounds is None else _bounds(figures, value, bounds, waited))


def is_comparable(baseline: RequestBaseline, figures: WindowFigures) -> bool:
    """Return whether a baseline had similar prompts and a similar load; unknown ones count as similar."""
    prompts = ratio(figures.total.prompt_tokens, figures.total.first_tokens)
    running = figures.window.mean.running_requests
    return _are_within(COMPARABLE_PROMPTS, prompts, baseline.prompt_tokens) and _are_within(
        COMPARABLE_LOAD, running, baseline.running_requests
    )


def _bounds(
    figures: WindowFigures, value: float, speedup: Estimate, first_token: float | None
) -> Estimate | None:
    """Return the bounds: the lower one at the lower bounds of S and P0, the upper one at the upper bounds."""
    names = ("first_token_nanoseconds", "decode_nanoseconds", "first_tokens")
    first, decoding, started = figures.columns(*names)
    total = list(map(add, first, decoding))

    def at(gain: float, error: float) -> Estimate | None:
        """Return the ratio at exact S and P0, with the error of the sums over the window."""
        unchanged: Sequence[float] = first
        possible = min(1.0, gain), max(1.0, gain)
        if first_token is not None:
            each = first_token * error * NANO
            unchanged, possible = [each * requests for requests in started], (0.0, inf)
        without = [waited + gain * decoded for waited, decoded in zip(unchanged, decoding, strict=True)]
        return estimate_of(without, total, figures.cosines, possible)

    low, high = at(speedup.lower, 1 - BASELINE_ERROR), at(speedup.upper, 1 + BASELINE_ERROR)
    if low is None or high is None:
        return None
    return Estimate(
        value,
        min(value, low.lower),
        max(value, high.upper),
        max(low.standard_error, high.standard_error),
        min(low.degrees, high.degrees),
    )


def _are_within(factor: float, one: float | None, other: float | None) -> bool:
    return one is None or other is None or max(one, other) <= factor * min(one, other)
