"""Speed-up of requests by speculation, with its bounds.

A request of D drafts with T tokens gave G - 1 tokens after the first in S decode steps (``request_steps``).
They took y = S + c0·D + c·T plain decode steps (see ``analysis/speedup``), or S·(1 + c0) + c·T if every step
pays the fixed cost. Over n requests the speed-up is Σx / Σy with x = G - 1, a ratio estimator
(``ratio_estimate``).

If the cost is an interval, the lower bound is that at its highest corner, and the upper bound that at its
lowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import lt, mul
from typing import Final

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.window_figures import Price
from spec_decode_exporter.requests.ratio_estimate import RatioSums, ratio_estimate
from spec_decode_exporter.requests.request_findings import Effect

RequestWork = tuple[int, int, int, int]
"""Tokens after the first, steps S, D and T of a request."""


@dataclass(frozen=True, slots=True)
class PlainSteps:
    """Sums over requests of y, the plain decode steps that they took at one cost; x are their tokens."""

    y: float = 0.0
    xy: float = 0.0
    yy: float = 0.0


_NONE: Final = PlainSteps()


@dataclass(frozen=True, slots=True)
class SpeedupSums:
    """Sums over the requests with decode steps and a known cost."""

    requests: int = 0
    x: float = 0.0
    """Tokens after the first."""
    xx: float = 0.0
    steps: int = 0
    drafts: int = 0
    plain: PlainSteps = _NONE
    low: PlainSteps = _NONE
    """At the lowest cost."""
    high: PlainSteps = _NONE
    """At the highest cost."""
    below_break_even: int = 0
    costs: float = 0.0
    """c, weighted by drafts."""
    fixed_costs: float = 0.0
    """c0, weighted by the steps that pay it."""
    typical_costs: int = 0
    """Requests whose cost is the method's typical cost."""


_NUMBERS: Final = tuple(each.name for each in fields(SpeedupSums) if each.type in {"int", "float"})


def speedup_sums(
    requests: Sequence[RequestWork], targets: Sequence[str], costs: Mapping[str, Cost | None]
) -> SpeedupSums:
    """Add up requests, each at the cost of its target; read each request once."""
    by_target: dict[str, list[RequestWork]] = {}
    for request, target in zip(requests, targets, strict=True):
        if request[1]:
            by_target.setdefault(target, []).append(request)
    by_cost: dict[Cost, list[RequestWork]] = {}
    for target, decoded in by_target.items():
        cost = costs[target]
        if cost is not None:
            by_cost.setdefault(cost, []).extend(decoded)
    return add_speedup_sums([_sums_at(decoded, cost) for cost, decoded in by_cost.items()])


def add_speedup_sums(parts: Sequence[SpeedupSums]) -> SpeedupSums:
    """Return the total of several sums."""
    numbers = {name: sum(getattr(part, name) for part in parts) for name in _NUMBERS}
    return SpeedupSums(
        **numbers,
        plain=_add([part.plain for part in parts]),
        low=_add([part.low for part in parts]),
        high=_add([part.high for part in parts]),
    )


def _add(parts: Sequence[PlainSteps]) -> PlainSteps:
    return PlainSteps(
        sum(part.y for part in parts), sum(part.xy for part in parts), sum(part.yy for part in parts)
    )


def _sums_at(requests: Sequence[RequestWork], cost: Cost) -> SpeedupSums:
    """Add up one or more requests at one cost."""
    xs, steps, drafts, draft_tokens = zip(*requests, strict=True)
    paying = steps if cost.every_step else drafts

    def plain_steps(price: Price) -> list[float]:
        rows = zip(steps, paying, draft_tokens, strict=True)
        return [s + price.step * p + price.token * t for s, p, t in rows]

    ys = plain_steps(cost.guess)
    return SpeedupSums(
        requests=len(requests),
        x=sum(xs),
        xx=sum(map(mul, xs, xs)),
        steps=sum(steps),
        drafts=sum(drafts),
        plain=_plain_sums(xs, ys),
        low=_plain_sums(xs, plain_steps(cost.low)),
        high=_plain_sums(xs, plain_steps(cost.high)),
        below_break_even=sum(map(lt, xs, ys)),
        costs=sum(drafts) * cost.guess.token,
        fixed_costs=sum(paying) * cost.guess.step,
        typical_costs=len(requests) if cost.source is CostSource.TYPICAL else 0,
    )


def _plain_sums(xs: Sequence[float], ys: Sequence[float]) -> PlainSteps:
    return PlainSteps(sum(ys), sum(map(mul, xs, ys)), sum(map(mul, ys, ys)))


def speedup_estimate(sums: SpeedupSums) -> Estimate | None:
    """Return the speed-up with its bounds; None for fewer than ``ratio_estimate.MIN_REQUESTS``."""
    estimate = _estimate(sums, sums.plain)
    low, high = _estimate(sums, sums.low), _estimate(sums, sums.high)
    if estimate is None or low is None or high is None:
        return None
    return estimate._replace(lower=high.lower, upper=low.upper)


def _estimate(sums: SpeedupSums, plain: PlainSteps) -> Estimate | None:
    return ratio_estimate(RatioSums(sums.requests, sums.x, sums.xx, plain.y, plain.xy, plain.yy))


def effect(sums: SpeedupSums) -> Effect:
    """Return the statistically significant effect of speculation on the requests, at any possible cost."""
    speedup = speedup_estimate(sums)
    if speedup is None or speedup.lower <= 1 <= speedup.upper:
        return Effect.UNCLEAR
    return Effect.GAINS if speedup.lower > 1 else Effect.LOSES
