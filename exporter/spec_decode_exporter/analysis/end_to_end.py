"""Speed-up of whole requests: the time to first token, which drafts do not shorten, and decoding.

A request takes P1 + D1 with speculation, and P0 + S·D1 without, with S the speed-up of decoding. So requests
are faster by (P0 + S·D1) / (P1 + D1), a ratio of sums over requests. Without a baseline P0 = P1, and the
bounds allow for what drafting changes of it: the length of a queue, and a lost prefix cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import inf, sqrt
from operator import add
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import PAYING, Verdict
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate, estimate_of, ratio
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.history import NANO

BASELINE_ERROR: Final = 0.10
"""Least relative error of a baseline's time to first token: it is of another day."""
ARRIVALS: Final = float(1 / (1 - Fraction(1, 3)))
"""If arrivals are fixed, slower steps leave more requests running, and these make steps slower again: with
step times proportional to b^e for b running requests, requests are faster by S^(1 / (1 - e)); e is 1/3."""
REQUEST_VARIATION: Final = 4.0
"""Assumed standard error of a mean time to first token, times the square root of the requests."""
MAX_QUEUE_GROWTH: Final = 10.0
"""Factor by which a queue is longer without speculation at most. Beyond, a server is overloaded: its queue
grows for as long as that lasts, and no window tells for how long."""
MIN_LOOKED_UP: Final = 10_000
"""Prompt tokens that are many enough for at least one hit: several blocks of any size."""
MIN_LOST_REQUESTS: Final = 20
"""Requests that are many enough for at least one common beginning, such as a system prompt."""
MIN_HITS: Final = 0.01
"""Share of prompt tokens from the cache below which a baseline had no hits to lose."""
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
    requests: float = inf
    """Requests of the mean."""
    requests_per_second: float | None = None
    context_tokens: float | None = None
    """Mean tokens of a request in the middle of its answer; None if unknown."""
    token_seconds: float | None = None
    """Mean time per output token after the first, in seconds."""
    histograms: Mapping[Latency, Buckets] = field(default_factory=dict, repr=False)
    """Histograms over these requests."""
    name: str = ""
    """Name in a sentence: ``3 h without speculation on 12 November``."""

    @property
    def error(self) -> float:
        """Relative error of the time to first token."""
        return max(BASELINE_ERROR, REQUEST_VARIATION / sqrt(self.requests))


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
    basis, known, is_lost = EndToEndBasis.SAME_FIRST_TOKEN, None, is_prefix_cache_lost(figures, baseline)
    if baseline is not None and is_comparable(baseline, figures):
        basis, known = EndToEndBasis.BASELINE, baseline
        first = baseline.first_token_seconds * (figures.total.first_tokens or 0)
    value = (first + speedup * decoding) / sum(figures.request_seconds)
    if is_lost:  # the middle of what is possible
        least = 0.0 if known is None else first
        value += (least + _without_prompts(figures, speedup) * decoding) / sum(figures.request_seconds)
        value /= 2
    return EndToEnd(value, basis, None if bounds is None else _bounds(figures, value, bounds, known, is_lost))


def is_prefix_cache_lost(figures: WindowFigures, baseline: RequestBaseline | None) -> bool:
    """Return whether many look-ups in the prefix cache found nothing, though without speculation some may.

    vLLM counts no look-ups if the prefix cache is disabled.
    """
    total, hits = figures.total, None if baseline is None else baseline.prefix_hit_ratio
    if total.prefix_cache_hits != 0 or (hits is not None and hits < MIN_HITS):
        return False
    looked_up, requests = total.prefix_cache_queries or 0, total.first_tokens or 0
    return looked_up >= MIN_LOOKED_UP and requests >= MIN_LOST_REQUESTS


def is_comparable(baseline: RequestBaseline, figures: WindowFigures) -> bool:
    """Return whether a baseline had similar prompts and a similar load; unknown ones count as similar."""
    prompts = ratio(figures.total.prompt_tokens, figures.total.first_tokens)
    running = figures.window.mean.running_requests
    return are_within(COMPARABLE_PROMPTS, prompts, baseline.prompt_tokens) and are_within(
        COMPARABLE_LOAD, running, baseline.running_requests
    )


def _bounds(
    figures: WindowFigures,
    value: float,
    speedup: Estimate,
    baseline: RequestBaseline | None,
    is_lost: bool,  # noqa: FBT001 - private
) -> Estimate | None:
    """Return the bounds: the lower one at the lower bounds of S and P0, the upper one at the upper bounds."""
    names = ("first_token_nanoseconds", "decode_nanoseconds", "first_tokens")
    first, decoding, started = figures.columns(*names)
    total = list(map(add, first, decoding))

    def at(gain: float, first_token: float) -> Estimate | None:
        """Return the ratio at exact S and P0, with the error of the sums over the window.

        ``first_token`` is in nanoseconds of a request with a baseline, else a factor of P1.
        """
        waited: Sequence[float] = first if baseline is None else started
        pairs = zip(waited, decoding, strict=True)
        without = [first_token * each + gain * decoded for each, decoded in pairs]
        possible = (0.0, inf) if baseline else (min(first_token, gain), max(first_token, gain))
        return estimate_of(without, total, figures.cosines, possible)

    slowest = min(speedup.lower, speedup.lower**ARRIVALS)
    fastest = max(speedup.upper, speedup.upper**ARRIVALS)
    if is_lost:
        slowest = _without_prompts(figures, slowest)
    if baseline is not None:
        mean, error = baseline.first_token_seconds * NANO, baseline.error
        low, high = at(slowest, mean * max(0.0, 1 - error)), at(fastest, mean * (1 + error))
    else:
        # Decoding that is faster may leave the queue as it is: clients may wait for answers.
        least, most = (_first_token_growth(figures, gain) for gain in (speedup.lower, speedup.upper))
        low, high = at(slowest, 0.0 if is_lost else min(least, 1.0)), at(fastest, max(most, 1.0))
    if low is None or high is None:
        return None
    return Estimate(
        value,
        min(value, low.lower),
        max(value, high.upper),
        max(low.standard_error, high.standard_error),
        min(low.degrees, high.degrees),
    )


def _without_prompts(figures: WindowFigures, speedup: float) -> float:
    """Return the least speed-up of decoding if without speculation no prompt were computed beside it.

    By Little's law the requests before their first token, besides those in the queue and the half step that
    each waits for the next one, are at least the share of the time in which prompts are computed.
    """
    total, window = figures.total, figures.window
    step = ratio(total.decode_nanoseconds, total.decode_steps) or 0.0
    computing = (total.first_token_nanoseconds or 0) - step / 2 * (total.first_tokens or 0)
    share = (ratio(computing / NANO, window.seconds) or 0.0) - (window.mean.waiting_requests or 0.0)
    return speedup * (1 - min(max(share, 0.0), 1.0))


def _first_token_growth(figures: WindowFigures, speedup: float) -> float:
    """Return P0 over P1 if drafting changes nothing of it but the queue.

    The wait in a queue is about proportional to u^p / (1 - u), with u the share of the time in which a place
    is taken, c places and p = √(2(c + 1)) (H. Sakasegawa, *An approximation formula for the queue of M/G/s*,
    Annals of the Institute of Statistical Mathematics 29, 1977). 3 more stands for the denominator.
    """
    mean, (waited, _) = figures.window.mean, figures.request_seconds or (0.0, 0.0)
    queued = ratio((mean.waiting_requests or 0.0) * figures.window.seconds, waited) or 0.0
    places = min((mean.running_requests or 0.0) + 1, 1000.0)  # more have no longer queue
    factor: float = speedup ** (sqrt(2 * places) + 3)
    return 1 + min(queued, 1.0) * (min(factor, MAX_QUEUE_GROWTH) - 1)


def are_within(factor: float, one: float | None, other: float | None) -> bool:
    """Return whether two values differ by at most a factor; an unknown one does not differ."""
    return one is None or other is None or max(one, other) <= factor * min(one, other)
