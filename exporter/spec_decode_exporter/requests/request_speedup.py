"""Speed-up of requests by speculation, with its bounds.

A request of D drafts with T tokens, A of them accepted, gave D + A tokens. It took D·(1 + c0) + c·T plain
decode steps (see ``analysis/speedup``). Over n requests the speed-up is m = Σx / Σy with x the tokens and y
the steps, a ratio estimator (Cochran, *Sampling Techniques*, 1977, section 6.3). Its standard error is

    s = √(n/(n - 1) · Σ (x - m·y)²) / Σy

The bounds are Student's t with n - 1 degrees of freedom. Whole requests are the sample. So correlation within
a request does not make the bounds too narrow; correlation between requests of one conversation does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from operator import mul
from typing import Final

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.statistics.student_t import t_quantile
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.request_findings import Effect

MIN_REQUESTS: Final = 30
"""Below, the error of a ratio estimator is itself unknown (Cochran, section 6.8)."""
DEFAULT_HARMFUL_LENGTH: Final = 1.2
"""Acceptance length below which speculation is harmful if its cost is typical."""

Counts = tuple[int, int, int]
"""D, T and A of a request."""


@dataclass(frozen=True, slots=True)
class SpeedupSums:
    """Sums over the requests that drafted at a known cost.

    x are the tokens of a request's drafts, and y the plain decode steps that they took.
    """

    requests: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    below_break_even: int = 0
    drafts: int = 0
    costs: float = 0.0
    """c, weighted by drafts."""
    fixed_costs: float = 0.0
    """c0, weighted by drafts."""
    default_costs: int = 0
    """Requests whose cost is the method's typical cost."""


_FIELDS: Final = tuple(each.name for each in fields(SpeedupSums))


def speedup_sums(
    requests: Sequence[Counts], targets: Sequence[str], costs: Mapping[str, Cost | None]
) -> SpeedupSums:
    """Add up requests, each at the cost of its target; read each request once."""
    by_target: dict[str, list[Counts]] = {}
    for request, target in zip(requests, targets, strict=True):
        if request[0]:
            by_target.setdefault(target, []).append(request)
    by_cost: dict[Cost, list[Counts]] = {}
    for target, drafted in by_target.items():
        cost = costs[target]
        if cost is not None:
            by_cost.setdefault(cost, []).extend(drafted)
    return add_speedup_sums([_sums_at(drafted, cost) for cost, drafted in by_cost.items()])


def add_speedup_sums(parts: Sequence[SpeedupSums]) -> SpeedupSums:
    """Return the total of several sums."""
    return SpeedupSums(*(sum(getattr(part, name) for part in parts) for name in _FIELDS))


def _sums_at(requests: Sequence[Counts], cost: Cost) -> SpeedupSums:
    """Add up one or more requests at one cost."""
    step, token = 1 + cost.fixed_cost_ratio, cost.draft_cost_ratio
    pairs = [(d + a, step * d + token * t) for d, t, a in requests]
    xs, ys = zip(*pairs, strict=True)
    drafts = sum(d for d, _, _ in requests)
    return SpeedupSums(
        requests=len(pairs),
        x=sum(xs),
        y=sum(ys),
        xx=sum(map(mul, xs, xs)),
        xy=sum(map(mul, xs, ys)),
        yy=sum(map(mul, ys, ys)),
        below_break_even=sum(x < y for x, y in pairs),
        drafts=drafts,
        costs=drafts * cost.draft_cost_ratio,
        fixed_costs=drafts * cost.fixed_cost_ratio,
        default_costs=len(pairs) if cost.source is CostSource.TYPICAL else 0,
    )


def speedup_estimate(sums: SpeedupSums) -> Estimate | None:
    """Return the speed-up with its bounds; None for fewer than ``MIN_REQUESTS``."""
    number = sums.requests
    if number < MIN_REQUESTS or not sums.y:
        return None
    value = sums.x / sums.y
    # The difference of large sums may be slightly negative.
    squares = max(0.0, sums.xx - 2 * value * sums.xy + value * value * sums.yy)
    error = sqrt(number / (number - 1) * squares) / sums.y
    half = t_quantile(number - 1) * error
    return Estimate(value, max(0.0, value - half), value + half, error, number - 1)


def effect(sums: SpeedupSums, harmful_length: float = DEFAULT_HARMFUL_LENGTH) -> Effect:
    """Return the statistically significant effect of speculation on the requests.

    If a typical cost is among the costs, requests lose only below ``harmful_length``. A typical cost depends
    on neither the models nor the load, and is rather too high.
    """
    speedup = speedup_estimate(sums)
    if speedup is None or speedup.lower <= 1 <= speedup.upper:
        return Effect.UNCLEAR
    if speedup.lower > 1:
        return Effect.GAINS
    is_unproven = sums.default_costs and sums.x >= harmful_length * sums.drafts
    return Effect.UNCLEAR if is_unproven else Effect.LOSES
