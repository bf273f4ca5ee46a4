"""Cost of drafting by the results of ``vllm bench forward``.

They are of exact batches on the GPU alone. They leave out:

- *Sampling and the host in a plain step*: a real t(0) is longer, so the real ratio is smaller.
- *Padding* to the sizes of the server's CUDA graphs, which are multiples of K + 1: the real ratio is larger.
- *A draft token besides its kernels*: metadata, launch, argmax. EAGLE on an H100 took 1 ms a token, of which
  0.6 ms were its weights (vLLM #16937).
- *A step that drafts*: rejection sampling, and the preparation of the drafter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression

from spec_decode_exporter.analysis.typical_costs import (
    UNKNOWN_METHOD,
    Range,
    drafter_cost,
    drafting,
    fixed_tokens,
)
from spec_decode_exporter.config.bench_results import AddedTime

LEAST_SHARE = 0.8
"""Least cost, relative to the results: sampling and the host take up to a fifth of a plain step."""
LARGEST_SHARE = 1.3
"""Largest cost, relative to the results: padding. What they leave out besides is added."""
TOKEN_SECONDS = 0.3e-3
"""Longest time that the results leave out of a draft token."""
STEP_SECONDS = 0.5e-3
"""And of a step that drafts."""


@dataclass(frozen=True, slots=True)
class BenchCost:
    """Cost at one load, over all contexts of the results."""

    running_requests: float
    token: Range
    """c: one more draft token, drafted and verified, in plain decode steps."""
    step: Range
    """c0: a step that drafts, independent of its draft tokens."""


def bench_costs(times: Collection[AddedTime], method: str) -> list[BenchCost]:
    """Return the cost by load, ascending.

    Without the drafter's time in the results, the typical one of the method is added.
    """
    by_load = defaultdict(list)
    for time in times:
        by_load[time.running_requests].append(time)
    return [_cost(load, by_load[load], method) for load in sorted(by_load)]


def _cost(running_requests: float, times: Sequence[AddedTime], method: str) -> BenchCost:
    with_drafter = all(time.with_drafter for time in times)
    by_context = defaultdict(list)
    for time in times:
        by_context[time.context_tokens].append((time.draft_tokens, time.ratio))
    # Verifying alone has no part that is independent of the number of tokens.
    per_token = fixed_tokens(method) if with_drafter else 0.0
    tokens, steps = zip(*(_fit(points, per_token) for points in by_context.values()), strict=True)
    plain = min(time.plain_seconds for time in times)
    if with_drafter:
        token, step = _imported(tokens, TOKEN_SECONDS / plain), _imported(steps, STEP_SECONDS / plain)
    else:
        drafter = drafting(drafter_cost(method) or UNKNOWN_METHOD, None)
        token, step = _imported(tokens).plus(drafter.token), _imported(steps).plus(drafter.step)
    return BenchCost(running_requests, token, step)


def _fit(points: Sequence[tuple[int, float]], fixed_tokens_of_method: float) -> tuple[float, float]:
    """Return c and c0 of t(K)/t(0) - 1 = c0 + c·K, neither below 0.

    Several K give both by least squares. One K gives their sum, which the method's typical c0/c splits.
    """
    tokens, ratios = zip(*points, strict=True)
    mean = max(fmean(ratios), 0.0)
    if len(set(tokens)) == 1:
        token = mean / (tokens[0] + fixed_tokens_of_method)
        return token, fixed_tokens_of_method * token
    slope, intercept = linear_regression(tokens, ratios)
    if slope < 0:
        return 0.0, mean
    if intercept < 0:
        return max(linear_regression(tokens, ratios, proportional=True).slope, 0.0), 0.0
    return slope, intercept


def _imported(values: Sequence[float], left_out: float = 0.0) -> Range:
    """Return the range over the contexts, with the most that the results leave out."""
    return Range(LEAST_SHARE * min(values), fmean(values), LARGEST_SHARE * max(values) + left_out)
