"""Share of the decode time by which prompts lengthen the steps that they share (chunked prefills).

Drafts do not shorten it. Over the polls, weighted by their steps S, y = t + p·v is fitted, with

    y = itl / S        mean time of a step; itl is the decode time of all requests
    u                  uncached prompt tokens per second
    v = u·y            uncached prompt tokens of a step of the whole batch, by Little's law

v contains the noise of y, so u is its instrument, as in ``costs.measured_cost``. The share is p·v̄/ȳ.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from operator import mul
from typing import Final

from spec_decode_exporter.figures.student_t import t_quantile

CURVATURE: Final = 1.25
"""A line shows too little, by up to a fifth: the first prompt token of a step costs its CUDA graph."""
MAX_WAITING: Final = 2.0
"""Mean requests before their first token from which on steps without prompts are too rare to compare with."""
_COEFFICIENTS: Final = 2
_OWN_VARIATION: Final = 1e-8  # share of its sum of squares that u must have: rounding leaves less


def highest_share(
    steps: Sequence[int], spent: Sequence[int], uncached: Sequence[int], seconds: Sequence[float]
) -> float | None:
    """Return the highest share (97.5 %) by polls; None if they do not show it.

    Args:
        steps: S.
        spent: itl, in any unit.
        uncached: Prompt tokens; they are counted when a request is admitted, often a poll before the work.
        seconds: Lengths of the polls.
    """
    rates = [tokens / length if length else 0.0 for tokens, length in zip(uncached, seconds, strict=True)]
    rates = [(rate + before) / 2 for rate, before in zip(rates, [*rates[:1], *rates], strict=False)]
    squares = [itl * itl / number if number else 0.0 for itl, number in zip(spent, steps, strict=True)]
    prompts: list[float] = list(map(mul, rates, spent))
    mixed: list[float] = list(map(mul, rates, squares))
    total, degrees = sum(steps), sum(map(bool, steps)) - _COEFFICIENTS
    if degrees < 1 or not any(rates):
        return None
    rate, prompt, time = sum(map(mul, rates, steps)) / total, sum(prompts) / total, sum(spent) / total
    # Sums of products less those of the means: S·u·v, S·u·y, S·u·u, S·v·v, S·v·y, S·y·y.
    with_prompt = sum(map(mul, rates, prompts)) - total * rate * prompt
    with_time = sum(prompts) - total * rate * time
    own = sum(map(mul, rates, map(mul, rates, steps))) - total * rate * rate
    if with_prompt <= 0 or own <= _OWN_VARIATION * total * rate * rate:
        return None
    slope: float = with_time / with_prompt
    left = sum(squares) - total * time * time
    left -= 2 * slope * (sum(mixed) - total * prompt * time)
    left += slope * slope * (sum(map(mul, rates, mixed)) - total * prompt * prompt)
    error: float = sqrt(max(0.0, left) / degrees * max(0.0, own)) / with_prompt
    return CURVATURE * (max(0.0, slope) + t_quantile(degrees) * error) * prompt / time
