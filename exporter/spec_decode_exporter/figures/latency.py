"""Latency under speculation.

vLLM observes its inter-token latency once a decode *step*, however many tokens the step gave: its
quantiles rise when speculation works. So its name here is ``decode_step``. The time per output token is the
same sum of time, divided by the tokens of the steps.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import NANO, Window

FAR_APART = 1.5
"""Edges of a bucket are far apart if their ratio exceeds this factor."""


def decode_seconds(window: Window) -> float | None:
    """Return the sum of the inter-token latencies, in seconds."""
    nanoseconds = window[Counter.DECODE_NANOSECONDS]
    return None if nanoseconds is None else nanoseconds / NANO


def step_seconds(window: Window) -> float | None:
    """Return the mean time of a decode step of one request, in seconds: Σ itl / S."""
    return ratio(decode_seconds(window), window[Counter.DECODE_STEPS])


def decoded_tokens(window: Window) -> int | None:
    """Return the tokens of decode steps: all but the first of each request, G - F."""
    generated, first = window[Counter.GENERATION_TOKENS], window[Counter.FIRST_TOKENS]
    return None if generated is None or first is None else generated - first


def time_per_output_token_seconds(window: Window) -> float | None:
    """Return the mean time per output token after the first, in seconds: Σ itl / (G - F).

    Weighted by tokens; the server's own histogram weighs by requests.
    """
    tokens = decoded_tokens(window)
    return ratio(decode_seconds(window), tokens) if tokens is not None and tokens > 0 else None


def quantile(share: float, buckets: Buckets) -> float | None:
    """Estimate a quantile as Prometheus' ``histogram_quantile`` does; None for an empty histogram.

    Linear within a bucket. The first bucket begins at 0; a quantile in the last bucket is the highest finite
    bound. ``share`` is between 0 and 1, the result has the bounds' unit.
    """
    total = buckets.counts[-1] if buckets.counts else 0
    finite = [bound for bound in buckets.bounds if bound < inf]
    if total <= 0 or not finite:
        return None
    rank = share * total
    place = next(index for index, count in enumerate(buckets.counts) if count >= rank)
    if place >= len(finite):
        return finite[-1]
    lower = finite[place - 1] if place else 0.0
    if place == 0 and finite[0] <= 0:
        return finite[0]
    below = buckets.counts[place - 1] if place else 0
    inside = buckets.counts[place] - below
    return lower + (finite[place] - lower) * ((rank - below) / inside if inside else 0.0)


class Edges(NamedTuple):
    """Edges of the bucket that holds a quantile: the quantile is certain to be between them."""

    lower: float
    upper: float

    @property
    def are_far_apart(self) -> bool:
        """Return whether three digits of the interpolated quantile would be meaningless."""
        return self.upper > FAR_APART * self.lower


def edges(share: float, buckets: Buckets) -> Edges | None:
    """Return the edges of the bucket that holds a quantile; None for an empty histogram.

    The first bucket begins at 0, and the last one ends at infinity.
    """
    total = buckets.counts[-1] if buckets.counts else 0
    if total <= 0:
        return None
    place = next(index for index, count in enumerate(buckets.counts) if count >= share * total)
    return Edges(buckets.bounds[place - 1] if place else 0.0, buckets.bounds[place])


PER_TOKEN_ACCEPTED = 100
PER_TOKEN_SHARE = 0.05


def counts_tokens_as_steps(window: Window) -> bool:
    """Return whether the server observes its inter-token latency once a token, not once a step.

    Then S is G - F; with an observation a step it would be lower by about A. It is decided only with enough
    accepted tokens to distinguish both: A ≥ 100 and A ≥ 0.05 S, on a whole long window.
    """
    accepted, steps, tokens = (
        window[Counter.ACCEPTED_TOKENS],
        window[Counter.DECODE_STEPS],
        decoded_tokens(window),
    )
    if accepted is None or steps is None or tokens is None:
        return False
    enough = accepted >= PER_TOKEN_ACCEPTED and accepted >= PER_TOKEN_SHARE * steps
    return enough and steps - tokens > -accepted / 2
