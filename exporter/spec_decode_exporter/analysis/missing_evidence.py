"""Evidence that a verdict needs and the evaluated window lacks, and the time that it takes."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import WHOLE_WINDOW
from spec_decode_exporter.analysis.window_evaluation import MIN_VERDICT_REQUESTS, WindowEvaluation
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, SHORT_SECONDS
from spec_decode_exporter.window.history import MIN_INCREMENTS

FIRST_SECONDS: Final = SHORT_SECONDS / 2
"""Minimum of the longest window: from 15 s on bounds are as sure as later (docs/explanation/coverage.md)."""
MIN_SECONDS: Final = WHOLE_WINDOW * SHORT_SECONDS
"""Minimum of a window since a change, or that replaces a longer one: it is chosen by its own data."""


class Evidence(StrEnum):
    """Kind of evidence."""

    DRAFTS = "drafts"
    REQUESTS = "requests"
    """Requests that pass one after the other, as of equal length."""
    SECONDS = "seconds"
    POLLS = "polls"
    HALF_WIDTH = "half_width"
    """Half-width of the acceptance length's bounds, relative to it: at most ``needed``."""
    LOWEST_SPEEDUP = "lowest_speedup"
    """Lower bound of the speed-up."""


class Need(NamedTuple):
    """Evidence that is needed, and how much of it was seen."""

    evidence: Evidence
    needed: float
    seen: float


def missing(its: WindowEvaluation, longest: float) -> tuple[Need, ...]:
    """Return the evidence that is missing for a verdict; any one of several suffices.

    Args:
        its: Window without a verdict.
        longest: Length of the longest window in seconds.
    """
    drafts, polls, policy = its.total.drafts or 0, its.window.polls, its.known.policy
    if drafts < policy.min_drafts:
        return (Need(Evidence.DRAFTS, policy.min_drafts, drafts),)
    if polls < MIN_INCREMENTS:
        return (Need(Evidence.POLLS, MIN_INCREMENTS, polls),)
    if its.is_partial:
        return _until_enough(its, longest)
    if its.speedup_range is not None and not its.is_insufficient:
        return (Need(Evidence.LOWEST_SPEEDUP, policy.speedup.harmful, its.speedup_range.estimate.lower),)
    length = its.acceptance_length_bounds
    if length is None:
        return (Need(Evidence.REQUESTS, MIN_VERDICT_REQUESTS, its.effective_requests or 0.0),)
    return (Need(Evidence.HALF_WIDTH, policy.max_half_width, length.half_width / length.value),)


def least_seconds(length: float, longest: float) -> float:
    """Return the seconds that bounds of an evaluated window need, by the lengths of both windows."""
    return min(FIRST_SECONDS if length >= longest else MIN_SECONDS, longest / 2)


def _until_enough(its: WindowEvaluation, longest: float) -> tuple[Need, ...]:
    """Return the ends of a wait for bounds, or for half of the longest window."""
    seconds, requests, half = its.window.seconds, its.effective_requests, longest / 2
    if requests is not None and requests < MIN_BOUND_REQUESTS:
        return Need(Evidence.REQUESTS, MIN_BOUND_REQUESTS, requests), Need(Evidence.SECONDS, half, seconds)
    least = least_seconds(its.window.length, longest)
    is_early = requests is not None and seconds < least
    return (Need(Evidence.SECONDS, least if is_early else half, seconds),)


class Countdown(NamedTuple):
    """Seconds from the newest poll to the first bounds and to the first verdict, at the present rate."""

    bounds: float
    """Infinite if too few requests pass for bounds."""
    verdict: float
    """Infinite if too few requests pass for a verdict."""


def countdown(its: WindowEvaluation, longest: float) -> Countdown | None:
    """Return the time to the evidence that is missing; None if none is, or if more time does not bring it.

    Args:
        its: Window without a verdict.
        longest: Length of the longest window in seconds.
    """
    seconds, drafts, least = its.window.seconds, its.total.drafts or 0, its.known.policy.min_drafts
    if its.window.polls < MIN_INCREMENTS or not drafts or not (its.is_partial or drafts < least):
        return None
    requests, half = its.effective_requests or 0.0, longest / 2

    def until(needed: float, seen: float) -> float:
        """Return the seconds until ``needed`` were seen; infinite if they do not fit into a window."""
        length = needed * seconds / seen if seen else inf
        return length - seconds if length <= longest else inf

    least_time = least_seconds(its.window.length, longest)
    bounds = max(least_time - seconds, until(MIN_BOUND_REQUESTS, requests))
    without = max(half - seconds, until(MIN_VERDICT_REQUESTS, requests))
    verdict = max(min(bounds, without), until(least, drafts))
    return Countdown(max(bounds, 0.0), max(verdict, 0.0))
