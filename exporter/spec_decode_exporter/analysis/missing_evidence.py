"""Evidence that a verdict needs and the evaluated window lacks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spec_decode_exporter.analysis.evaluated_window import MIN_SECONDS, EvaluatedWindow
from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.statistics.ratio_bounds import MIN_BOUND_REQUESTS, passing_requests
from spec_decode_exporter.analysis.verdict import MIN_VERDICT_REQUESTS, half_width, insufficient
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import MIN_INCREMENTS


class Evidence(StrEnum):
    """Kind of evidence."""

    DRAFTS = "drafts"
    REQUESTS = "requests"
    """Requests that pass one after the other."""
    SECONDS = "seconds"
    POLLS = "polls"
    HALF_WIDTH = "half_width"
    """Half-width of the acceptance length's bounds, relative to it: at most ``needed``."""
    LOWEST_SPEEDUP = "lowest_speedup"
    """Lower bound of the speed-up."""


@dataclass(frozen=True, slots=True)
class Need:
    """Evidence that is needed, and how much of it was seen."""

    evidence: Evidence
    needed: float
    seen: float


def missing(
    evaluated: EvaluatedWindow, length: Estimate | None, speedup: SpeedupRange | None, policy: Policy
) -> tuple[Need, ...]:
    """Return the evidence that is missing for a verdict; any one of several suffices.

    Args:
        evaluated: Window without a verdict.
        length: Bounds of its acceptance length.
        speedup: Its speed-up at the possible costs.
        policy: Thresholds.
    """
    window = evaluated.window
    drafts, requests = window[Counter.DRAFTS] or 0, passing_requests(window)
    if drafts < policy.min_drafts:
        return (Need(Evidence.DRAFTS, policy.min_drafts, drafts),)
    if window.polls < MIN_INCREMENTS:
        return (Need(Evidence.POLLS, MIN_INCREMENTS, window.polls),)
    if window.partial:
        return _until_enough(evaluated, requests)
    if speedup is not None and not insufficient(window, length=length, policy=policy):
        return (Need(Evidence.LOWEST_SPEEDUP, policy.speedup.harmful, speedup.estimate.lower),)
    if length is None:
        return (Need(Evidence.REQUESTS, MIN_VERDICT_REQUESTS, requests or 0.0),)
    return (Need(Evidence.HALF_WIDTH, policy.max_half_width, half_width(length) / length.value),)


def _until_enough(evaluated: EvaluatedWindow, requests: float | None) -> tuple[Need, ...]:
    """Return the ends of a wait for bounds, or for half of the longest window."""
    seconds, half = evaluated.window.seconds, evaluated.longest / 2
    if requests is not None and requests < MIN_BOUND_REQUESTS:
        return (
            Need(Evidence.REQUESTS, MIN_BOUND_REQUESTS, requests),
            Need(Evidence.SECONDS, half, seconds),
        )
    early = requests is not None and seconds < MIN_SECONDS
    return (Need(Evidence.SECONDS, min(MIN_SECONDS, half) if early else half, seconds),)
