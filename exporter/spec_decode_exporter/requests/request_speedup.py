"""How much faster speculation made some requests together, and how sure that is.

A request of D drafts of T tokens, A of them accepted, took D·(1 + c0) + c·T plain decode steps for D + A
tokens (see ``analysis/speedup``). Over n requests the speed-up is m = Σx / Σy with x the tokens and y the
steps, a ratio estimator (Cochran, *Sampling Techniques*, 1977, section 6.3), and its standard error comes
from how requests differ:

    s = √(n/(n - 1) · Σ (x - m·y)²) / Σy

The bounds are Student's t with n - 1 degrees of freedom. Requests are what is drawn by chance here, whole: so
the likeness of a request's own drafts does not make the bounds too narrow. That of requests which belong
together, the turns of one conversation, does.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from spec_decode_exporter.analysis.statistics.student_t import t_quantile
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.request_findings import Effect
from spec_decode_exporter.requests.request_sums import PaySums

LEAST_REQUESTS: Final = 30
"""Below, the error of a ratio estimator is itself not known (Cochran, section 6.8), nor can a mix be told."""

HARDLY_A_TOKEN: Final = 1.2
"""The acceptance length below which speculation is called harmful where its cost is not known."""


def speedup_estimate(sums: PaySums) -> Estimate | None:
    """Return the speed-up with its bounds; None of fewer than ``LEAST_REQUESTS``."""
    number = sums.requests
    if number < LEAST_REQUESTS or not sums.y:
        return None
    value = sums.x / sums.y
    # Differences of great sums may come out a little below 0.
    squares = max(0.0, sums.xx - 2 * value * sums.xy + value * value * sums.yy)
    error = sqrt(number / (number - 1) * squares) / sums.y
    half = t_quantile(number - 1) * error
    return Estimate(value, max(0.0, value - half), value + half, error, number - 1)


def effect(sums: PaySums) -> Effect:
    """Return what speculation does to the requests, by the bounds.

    By what a method usually costs alone, nobody is said to lose whose drafts give more than hardly a token:
    such a cost knows neither the models nor the load, and is rather too high.
    """
    speedup = speedup_estimate(sums)
    if speedup is None or speedup.lower <= 1 <= speedup.upper:
        return Effect.UNCLEAR
    if speedup.lower > 1:
        return Effect.GAINS
    return Effect.UNCLEAR if sums.guessed and sums.x >= HARDLY_A_TOKEN * sums.drafts else Effect.LOSES
