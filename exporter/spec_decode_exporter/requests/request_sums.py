"""What some requests add up to: the sums of a model are those of its groups, and nothing is seen twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import nan
from operator import mul

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.figures.acceptance import acceptance_length
from spec_decode_exporter.requests.informative_requests import LEAST_TOKENS, Row
from spec_decode_exporter.requests.pathology import Pathology
from spec_decode_exporter.requests.request_findings import RequestTotals
from spec_decode_exporter.requests.stored_requests import RequestRows

CostOf = Callable[[str], Cost | None]
"""From a target to what drafting costs there."""


@dataclass(frozen=True, slots=True)
class PaySums:
    """Sums over the requests of which can be said what speculation did to them.

    With x the tokens that came out of a request's drafts and y the plain decode steps that those took.
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
    """c, by drafts."""
    fixed_costs: float = 0.0
    """c0, by drafts."""
    guessed: int = 0
    """Requests of which the cost is only what the method usually costs."""


_PAY = tuple(each.name for each in fields(PaySums))


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over requests, and their values in ascending order."""

    totals: RequestTotals = field(default_factory=RequestTotals)
    ratios: Sequence[float] = ()
    """A/T."""
    telling: Sequence[Row] = ()
    """Those of which the drafts say enough; in no order."""
    lengths: Sequence[float] = ()
    seconds_per_token: Sequence[float] = ()
    rejected: int = 0
    repetitive: int = 0
    pay: PaySums = field(default_factory=PaySums)


def sums(rows: RequestRows, cost_of: CostOf) -> Sums:
    """Add up requests of one model."""
    drafted = list(zip(rows.drafts, rows.draft_tokens, rows.accepted_tokens, strict=True))
    costs = {target: cost_of(target) for target in set(rows.targets)}
    return Sums(
        RequestTotals(len(rows), sum(rows.drafts), sum(rows.draft_tokens), sum(rows.accepted_tokens)),
        sorted(accepted / tokens for _, tokens, accepted in drafted if tokens),
        _telling(rows, costs),
        sorted(acceptance_length(accepted / drafts) for drafts, _, accepted in drafted if drafts),
        sorted(seconds for seconds in rows.seconds_per_token if seconds == seconds),  # noqa: PLR0124  # not NaN
        rows.pathologies.count(Pathology.REJECTED),
        rows.pathologies.count(Pathology.REPETITIVE),
        _pay(drafted, rows.targets, costs),
    )


def _telling(rows: RequestRows, costs: Mapping[str, Cost | None]) -> list[Row]:
    ratios = {
        target: (nan, nan) if cost is None else (cost.fixed_cost_ratio, cost.draft_cost_ratio)
        for target, cost in costs.items()
    }
    counts = (rows.tokens, rows.drafts, rows.draft_tokens, rows.accepted_tokens, rows.targets)
    return [
        (k, d, t, a, ratios[target][0] + ratios[target][1] * t / d)
        for k, d, t, a, target in zip(*counts, strict=True)
        if d and t and d + a >= LEAST_TOKENS
    ]


def _pay(
    drafted: Sequence[tuple[int, int, int]], targets: Sequence[str], costs: Mapping[str, Cost | None]
) -> PaySums:
    """Add up what speculation did to requests of D, T and A, each at the cost of its target.

    Each request is looked at once, however many targets there are.
    """
    by_target: dict[str, list[tuple[int, int, int]]] = {}
    for request, target in zip(drafted, targets, strict=True):
        if request[0]:
            by_target.setdefault(target, []).append(request)
    by_cost: dict[Cost, list[tuple[int, int, int]]] = {}
    for target, requests in by_target.items():
        cost = costs[target]
        if cost is not None:
            by_cost.setdefault(cost, []).extend(requests)
    return _added([_at_cost(requests, cost) for cost, requests in by_cost.items()])


def _at_cost(requests: Sequence[tuple[int, int, int]], cost: Cost) -> PaySums:
    """Add up requests of D, T and A, which is at least one."""
    step, token = 1 + cost.fixed_cost_ratio, cost.draft_cost_ratio
    pairs = [(d + a, step * d + token * t) for d, t, a in requests]
    xs, ys = zip(*pairs, strict=True)
    drafts = sum(d for d, _, _ in requests)
    return PaySums(
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
        guessed=len(pairs) if cost.source is CostSource.DEFAULT else 0,
    )


def together(parts: Sequence[Sums]) -> Sums:
    """Return the sums over groups; runs that ascend are merged faster than they are sorted."""
    return Sums(
        _totals([part.totals for part in parts]),
        _merged([part.ratios for part in parts]),
        [request for part in parts for request in part.telling],
        _merged([part.lengths for part in parts]),
        _merged([part.seconds_per_token for part in parts]),
        sum(part.rejected for part in parts),
        sum(part.repetitive for part in parts),
        _added([part.pay for part in parts]),
    )


def _added(parts: Sequence[PaySums]) -> PaySums:
    return PaySums(*(sum(getattr(part, name) for part in parts) for name in _PAY))


def _merged(runs: Sequence[Sequence[float]]) -> list[float]:
    return sorted(value for run in runs for value in run)


def _totals(parts: Sequence[RequestTotals]) -> RequestTotals:
    return RequestTotals(
        sum(part.requests for part in parts),
        sum(part.drafts for part in parts),
        sum(part.draft_tokens for part in parts),
        sum(part.accepted_tokens for part in parts),
    )
