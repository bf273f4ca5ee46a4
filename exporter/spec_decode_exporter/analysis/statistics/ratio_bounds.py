"""95 % bounds of a window's ratios, from the variation of its increments.

Drafts of one request are alike, so their variance is larger than that of independent drafts. The variance of
sums over many requests shows in the slow cosines of a window: for the residuals
r_j = N_j - m·M_j of the ratio m = N/M over the increments j = 1 … J, and the cosines b = 1 … B,

    L_b = √(2/J) · Σ_j r_j·cos(π·b·(j - ½)/J)        standard error of Σ r_j = √(J · mean of L_b²)

and m is within t_B(0.975) of these standard errors over M. This is the equal-weighted cosine estimator of a
long-run variance. docs/explanation/coverage.md has the coverage of these bounds, and the windows that
have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import cos, inf, pi, sqrt
from operator import mul
from typing import NamedTuple

from spec_decode_exporter.analysis.statistics.student_t import t_quantile
from spec_decode_exporter.figures.acceptance import (
    acceptance_length,
    acceptance_length_tokens,
    draft_acceptance_ratio,
)
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.server_load import mean
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.window.answer_lengths import AnswerLengths
from spec_decode_exporter.window.ledger import Increments, Window
from spec_decode_exporter.window.once_per_window import once_per_window

MIN_BOUND_REQUESTS = 5
"""Effective requests through a window that bounds need; with fewer their variance is unknown."""
LIVES_PER_COSINE = 3.3
"""Cosine b has b/2 periods in a window. It must be slow compared with the life of a request, or it
underestimates the variance."""
MIN_ANSWERS = 10
"""Finished requests that the variation of answer lengths needs; a few always look alike."""
ASSUMED_EQUAL_SHARE = 1 / 1.4
ASSUMED_LIFE_SHARE = 0.66
"""Shares of unknown answer lengths: those of 50 to 500 tokens, evenly over the logarithm (cv² = 0.4)."""
SHORT_SECONDS = 30.0
SHORT_COSINES = 3
MAX_COSINES = 12
"""Maximum; more would narrow the bounds by at most a tenth: t falls from 2.18 to 1.96."""
_GROWTH = 0.6
"""Exponent of the number of cosines by the window's length: 3 at 30 s, 12 at 300 s. In theory it is 2/3."""
MIN_COSINES = 2
MAX_INCREMENTS = 40
"""Twelve slow cosines do not resolve a fortieth of a window."""


def grouped(window: Window) -> Increments:
    """Return a window's increments for bounds: sums of neighbours, at most 40."""
    return window.increments.merged(MAX_INCREMENTS)


@once_per_window
def busy_requests(window: Window) -> float | None:
    """Return the mean running requests while the server is busy, at least 1; None if unknown.

    Idle time between bursts of requests does not count. A request counts as one, however short it is.
    """
    running = mean(window, Gauge.RUNNING_REQUESTS)
    if running is None:
        return None
    known = window[Counter.GENERATION_TOKENS] is not None
    activity = grouped(window).counter(Counter.GENERATION_TOKENS if known else Counter.DRAFTS)
    busy = sum(map(bool, activity))
    return max(running * len(activity) / busy, 1.0) if busy else None


def passing_requests(window: Window) -> float | None:
    """Return the number of requests that pass through a window one after the other: F/R; None if unknown.

    R is the result of ``busy_requests``.
    """
    return ratio(window[Counter.FIRST_TOKENS], busy_requests(window))


class RequestCounts(NamedTuple):
    """Requests that pass through a window one after the other, by what they are worth for bounds."""

    effective: float
    """n_eff = (F/R)/(1 + cv²), with the coefficient of variation cv of answer lengths.

    A request counts by its length, so n requests are worth (Σl)²/Σl² (Kish, *Survey Sampling*, 1965, section
    11.7).
    """
    lives: float
    """(F/R)·Σl·Σl²/(n·Σl³): lives, of a request chosen by its part in the variance, that fit."""


def request_counts(passing: float, answers: AnswerLengths) -> RequestCounts:
    """Return what ``passing`` requests are worth whose answers have these lengths."""
    known = answers.requests >= MIN_ANSWERS
    equal, life = (answers.equal_share, answers.life_share) if known else (None, None)
    return RequestCounts(
        passing * (ASSUMED_EQUAL_SHARE if equal is None else equal),
        passing * (ASSUMED_LIFE_SHARE if life is None else life),
    )


@once_per_window
def counted_requests(window: Window) -> RequestCounts | None:
    """Return what the passing requests of a window are worth; None if they are unknown."""
    passing = passing_requests(window)
    return None if passing is None else request_counts(passing, window.answers)


def effective_requests(window: Window) -> float | None:
    """Return n_eff of a window; None if unknown."""
    counts = counted_requests(window)
    return None if counts is None else counts.effective


@once_per_window
def cosines(window: Window) -> int:
    """Return B, the number of cosines for a window's bounds; 0 if it has none.

    B grows with the covered time if enough requests pass through.
    """
    if window.partial or not window[Counter.DRAFTS]:
        return 0
    return cosines_of(window.seconds, counted_requests(window))


def cosines_of(seconds: float, requests: RequestCounts | None) -> int:
    """Return B for ``seconds`` in which these requests pass."""
    if requests is None or requests.effective < MIN_BOUND_REQUESTS:
        return 0
    growth: float = max(seconds / SHORT_SECONDS, 1.0) ** _GROWTH
    enough = max(MIN_COSINES, int(requests.lives / LIVES_PER_COSINE))
    return min(round(SHORT_COSINES * growth), enough, MAX_COSINES)


def standard_error(residuals: Sequence[float], cosines: int) -> float | None:
    """Return the standard error of a sum by its residuals; None without cosines.

    ``residuals`` are the deviations from the mean, one for each increment, oldest first. Their sum is 0, and
    the result has their unit. Omit increments without activity.
    """
    number = min(cosines, len(residuals) - 1, MAX_COSINES)
    return None if number < 1 else _error_of_sum(residuals, number)


def ratio_estimate(
    numerators: Sequence[float],
    denominators: Sequence[float],
    cosines: int,
    *,
    min_error: float = 0.0,
    lowest: float,
    highest: float,
) -> Estimate | None:
    """Return Σ numerators / Σ denominators with its bounds; both have one value for each increment.

    ``min_error`` is the minimum standard error. ``lowest`` and ``highest`` are the possible range, in the
    ratio's unit. The bounds contain the value even if a torn page moved it out of that range. None without
    cosines, or with too few increments for two of them.
    """
    total = sum(denominators)
    if total <= 0:
        return None
    value = sum(numerators) / total
    residuals = [
        above - value * below for above, below in zip(numerators, denominators, strict=True) if above or below
    ]
    number = min(cosines, len(residuals) - 1, MAX_COSINES)
    if number < MIN_COSINES:
        return None
    error = max(_error_of_sum(residuals, number) / total, min_error)
    half = t_quantile(number) * error
    return Estimate(
        value,
        min(value, max(lowest, value - half)),
        max(value, min(highest, value + half)),
        error,
        number,
    )


def _error_of_sum(residuals: Sequence[float], number: int) -> float:
    """Return the standard error of the residuals' sum by that number of cosines."""
    waves = _waves(len(residuals), number)
    return sqrt(2 / number * sum([sum(map(mul, residuals, wave)) ** 2 for wave in waves]))


@once_per_window
def independent_variance(window: Window) -> float | None:
    """Return the variance of the accepted tokens of one draft, Σ (2i+1)·p_i - (Σ p_i)².

    It follows exactly from the counters, independent of the order of drafts, and is the minimum.
    """
    drafts, positions = window[Counter.DRAFTS], window.positions
    if not drafts or not positions:
        return None
    squares = sum((2 * position + 1) * accepted for position, accepted in enumerate(positions))
    # A torn page may have impossible positions.
    return max(0, drafts * squares - sum(positions) ** 2) / drafts**2


def acceptance_length_estimate(window: Window) -> Estimate | None:
    """Return the acceptance length 1 + A/D with its bounds, in tokens, between 1 and 1 + K."""
    length, number = acceptance_length_tokens(window), cosines(window)
    if length is None or not number:
        return None
    increments = grouped(window)
    accepted = ratio_estimate(
        increments.counter(Counter.ACCEPTED_TOKENS),
        increments.counter(Counter.DRAFTS),
        number,
        min_error=_min_length_error(window),
        lowest=0.0,
        highest=len(window.positions) or inf,
    )
    if accepted is None:
        return None
    return replace(
        accepted,
        value=length,
        lower=acceptance_length(accepted.lower),
        upper=acceptance_length(accepted.upper),
    )


def acceptance_ratio_estimate(window: Window) -> Estimate | None:
    """Return the draft acceptance rate A/T with its bounds, between 0 and 1."""
    number = cosines(window)
    if draft_acceptance_ratio(window) is None or not number:
        return None
    increments = grouped(window)
    return ratio_estimate(
        increments.counter(Counter.ACCEPTED_TOKENS),
        increments.counter(Counter.DRAFT_TOKENS),
        number,
        min_error=_min_ratio_error(window),
        lowest=0.0,
        highest=1.0,
    )


def _min_length_error(window: Window) -> float:
    """Return the standard error of A/D for independent drafts; 0 if unknown."""
    variance, drafts = independent_variance(window), window[Counter.DRAFTS]
    return sqrt(variance / drafts) if variance is not None and drafts else 0.0


def _min_ratio_error(window: Window) -> float:
    """Return the minimum standard error of A/T for independent drafts; 0 if unknown.

    It is √D/T times the standard deviation of a - m·t over drafts of t tokens of which a are accepted. The
    counters yield that of a, √v, and the mean of t, T/D, whose variance is at most T/D·(K - T/D). The
    correlation of a and t is unknown. So only √v minus m times the deviation of t is certain: √v if all
    drafts have K tokens, and little if their lengths differ much.
    """
    variance, ratio = independent_variance(window), draft_acceptance_ratio(window)
    drafts, drafted = window[Counter.DRAFTS], window[Counter.DRAFT_TOKENS]
    if variance is None or ratio is None or not drafts or not drafted:
        return 0.0
    length = drafted / drafts
    spread = sqrt(length * max(0.0, len(window.positions) - length))
    return max(0.0, sqrt(variance) - ratio * spread) * sqrt(drafts) / drafted


@lru_cache(maxsize=512)
def _waves(increments: int, number: int) -> tuple[tuple[float, ...], ...]:
    """Return cos(π·b·(j - ½)/J) for j = 1 … J, of b = 1 … ``number``."""
    return tuple(_wave(increments, each) for each in range(1, number + 1))


@lru_cache(maxsize=1024)
def _wave(increments: int, number: int) -> tuple[float, ...]:
    return tuple(cos(pi * number * (place + 0.5) / increments) for place in range(increments))
