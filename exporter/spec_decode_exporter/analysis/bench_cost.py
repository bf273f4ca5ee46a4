"""Cost of drafting by the results of ``vllm bench forward``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
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

IMPORTED_MARGIN = 0.30
"""Largest part of the cost that the results leave out: sampling and the host."""


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
    fits = [_fit(points, per_token) for points in by_context.values()]
    token, step = (_imported(values) for values in zip(*fits, strict=True))
    if not with_drafter:
        drafter = drafting(drafter_cost(method) or UNKNOWN_METHOD, None)
        token, step = token.plus(drafter.token), step.plus(drafter.step)
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


def _imported(values: Iterable[float]) -> Range:
    """Return the range over the contexts."""
    known = list(values)
    return Range(min(known), fmean(known), (1 + IMPORTED_MARGIN) * max(known))
