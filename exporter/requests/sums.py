"""What some requests add up to: the sums of a model are those of its groups, and nothing is seen twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from operator import mul

from exporter.analysis.cost import Cost, CostSource
from exporter.requests.findings import Totals
from exporter.requests.kept import Rows
from exporter.requests.pathology import Pathology

CostOf = Callable[[str], Cost | None]
"""From a target to what drafting costs there."""

LEAST_TOKENS = 32
"""A request whose drafts gave fewer tokens says little of how well its own are accepted."""


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
    telling: int = 0
    """Requests of at least ``LEAST_TOKENS``."""
    telling_below: int = 0
    """Of those, below break-even."""
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

    totals: Totals = field(default_factory=Totals)
    ratios: Sequence[float] = ()
    """A/T."""
    telling: Sequence[tuple[float, int]] = ()
    """A/T and D of requests of at least ``LEAST_TOKENS``; in no order."""
    lengths: Sequence[float] = ()
    seconds_per_token: Sequence[float] = ()
    rejected: int = 0
    repetitive: int = 0
    pay: PaySums = field(default_factory=PaySums)


def sums(rows: Rows, cost_of: CostOf) -> Sums:
    """Add up requests of one model."""
    drafted = list(zip(rows.drafts, rows.draft_tokens, rows.accepted_tokens, strict=True))
    return Sums(
        Totals(len(rows), sum(rows.drafts), sum(rows.draft_tokens), sum(rows.accepted_tokens)),
        sorted(accepted / tokens for _, tokens, accepted in drafted if tokens),
        [(a / t, d) for d, t, a in drafted if d and t and d + a >= LEAST_TOKENS],
        sorted(1 + accepted / drafts for drafts, _, accepted in drafted if drafts),
        sorted(seconds for seconds in rows.seconds_per_token if seconds == seconds),  # noqa: PLR0124  # not NaN
        rows.pathologies.count(Pathology.REJECTED),
        rows.pathologies.count(Pathology.REPETITIVE),
        pay_sums(rows, cost_of),
    )


def pay_sums(rows: Rows, cost_of: CostOf) -> PaySums:
    """Add up what speculation did to requests, each at the cost of the target that served it.

    Each request is looked at once, however many targets there are: those are what senders say.
    """
    by_cost: dict[Cost, list[tuple[int, int, int]]] = {}
    known = {target: cost_of(target) for target in set(rows.targets)}
    columns = zip(rows.drafts, rows.draft_tokens, rows.accepted_tokens, rows.targets, strict=True)
    for drafts, draft_tokens, accepted, target in columns:
        cost = known[target]
        if drafts and cost is not None:
            by_cost.setdefault(cost, []).append((drafts, draft_tokens, accepted))
    return _added([_at_cost(requests, cost) for cost, requests in by_cost.items()])


def _at_cost(requests: Sequence[tuple[int, int, int]], cost: Cost) -> PaySums:
    """Add up requests of D, T and A, which is at least one."""
    step, token = 1 + cost.fixed_cost_ratio, cost.draft_cost_ratio
    pairs = [(d + a, step * d + token * t) for d, t, a in requests]
    xs, ys = zip(*pairs, strict=True)
    drafts = sum(d for d, _, _ in requests)
    telling = [(x, y) for x, y in pairs if x >= LEAST_TOKENS]
    return PaySums(
        requests=len(pairs),
        x=sum(xs),
        y=sum(ys),
        xx=sum(map(mul, xs, xs)),
        xy=sum(map(mul, xs, ys)),
        yy=sum(map(mul, ys, ys)),
        below_break_even=_below(pairs),
        telling=len(telling),
        telling_below=_below(telling),
        drafts=drafts,
        costs=drafts * cost.draft_cost_ratio,
        fixed_costs=drafts * cost.fixed_cost_ratio,
        guessed=len(pairs) if cost.source is CostSource.DEFAULT else 0,
    )


def _below(pairs: Sequence[tuple[int, float]]) -> int:
    """Return how many took longer than plain decoding would have."""
    return sum(x < y for x, y in pairs)


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


def _totals(parts: Sequence[Totals]) -> Totals:
    return Totals(
        sum(part.requests for part in parts),
        sum(part.drafts for part in parts),
        sum(part.draft_tokens for part in parts),
        sum(part.accepted_tokens for part in parts),
    )
