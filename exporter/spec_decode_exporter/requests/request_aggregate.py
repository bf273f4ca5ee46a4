"""Aggregates of requests: sums that add up over groups, and the summary of them.

The sums of a model are those of its groups, so that each request is read once. Aggregation yields to the
event loop after slices of about a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Final, TypeVar

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.figures.quantile import SPREAD_QUANTILES
from spec_decode_exporter.requests.below_break_even import MIN_TOKENS, InformativeRow
from spec_decode_exporter.requests.pathology import Pathology
from spec_decode_exporter.requests.request_findings import Percentiles, RequestTotals, Summary
from spec_decode_exporter.requests.request_speedup import (
    RequestWork,
    SpeedupSums,
    add_speedup_sums,
    speedup_estimate,
    speedup_sums,
)
from spec_decode_exporter.requests.request_steps import decode_steps
from spec_decode_exporter.requests.stored_requests import RequestRows

CostOf = Callable[[str], Cost | None]
"""Cost of drafting at a target."""
Key = TypeVar("Key", bound=Hashable)

SLICE_SUMMED: Final = 500
"""Requests that are added up between two yields: 1 ms."""
SLICE_INDEXED: Final = 2000
"""Requests whose indices are noted between two yields: 1 ms."""


@dataclass(frozen=True, slots=True)
class RequestSums:
    """Sums over requests, and their values in ascending order."""

    totals: RequestTotals = field(default_factory=RequestTotals)
    ratios: Sequence[float] = ()
    """A/T."""
    informative: Sequence[InformativeRow] = ()
    """Requests with enough tokens; unordered."""
    lengths: Sequence[float] = ()
    """1 + A/D."""
    seconds_per_token: Sequence[float] = ()
    rejected: int = 0
    repetitive: int = 0
    speedup: SpeedupSums = field(default_factory=SpeedupSums)


def sums(rows: RequestRows, cost_of: CostOf) -> RequestSums:
    """Add up requests of one model."""
    counts = list(zip(rows.drafts, rows.draft_tokens, rows.accepted_tokens, strict=True))
    costs = {target: cost_of(target) for target in set(rows.targets)}
    work = _work(rows)
    return RequestSums(
        RequestTotals(len(rows), sum(rows.drafts), sum(rows.draft_tokens), sum(rows.accepted_tokens)),
        sorted(accepted / tokens for _, tokens, accepted in counts if tokens),
        _informative(rows, work, costs),
        sorted(1 + accepted / drafts for drafts, _, accepted in counts if drafts),
        sorted(seconds for seconds in rows.seconds_per_token if seconds == seconds),  # noqa: PLR0124  # not NaN
        rows.pathologies.count(Pathology.REJECTED),
        rows.pathologies.count(Pathology.REPETITIVE),
        speedup_sums(work, rows.targets, costs),
    )


def _work(rows: RequestRows) -> list[RequestWork]:
    steps = decode_steps(rows.decoded_tokens, rows.drafts, rows.accepted_tokens)
    return list(zip(rows.decoded_tokens, steps, rows.drafts, rows.draft_tokens, strict=True))


def _informative(
    rows: RequestRows, work: Sequence[RequestWork], costs: Mapping[str, Cost | None]
) -> list[InformativeRow]:
    """Return the requests with long answers, with their break-even at the lowest cost.

    A draft must accept (y - (G - 1) + A) / D tokens; if every step drafts, that is c0 + c·T/D.
    """
    ratios = {target: _ratios(cost) for target, cost in costs.items()}
    columns = (rows.tokens, rows.accepted_tokens, work, map(ratios.__getitem__, rows.targets))
    return [
        (k, d, t, a, draft + (step * s - x + a + token * t) / d)
        for k, a, (x, s, d, t), (step, draft, token) in zip(*columns, strict=True)
        if d and t and x >= MIN_TOKENS
    ]


def _ratios(cost: Cost | None) -> tuple[float, float, float]:
    """Return the lowest cost of a step, of a draft in addition, and of a draft token; NaN if unknown."""
    if cost is None:
        return nan, nan, nan
    token, step, every_step = cost.low
    return (1 + step, 0.0, token) if every_step else (1.0, step, token)


def add_sums(parts: Sequence[RequestSums]) -> RequestSums:
    """Return the total of several sums; sorting merges the ascending values."""
    return RequestSums(
        _totals([part.totals for part in parts]),
        _merged([part.ratios for part in parts]),
        [request for part in parts for request in part.informative],
        _merged([part.lengths for part in parts]),
        _merged([part.seconds_per_token for part in parts]),
        sum(part.rejected for part in parts),
        sum(part.repetitive for part in parts),
        add_speedup_sums([part.speedup for part in parts]),
    )


def _merged(runs: Sequence[Sequence[float]]) -> list[float]:
    return sorted(value for run in runs for value in run)


def _totals(parts: Sequence[RequestTotals]) -> RequestTotals:
    return RequestTotals(
        sum(part.requests for part in parts),
        sum(part.drafts for part in parts),
        sum(part.draft_tokens for part in parts),
        sum(part.accepted_tokens for part in parts),
    )


async def indices_by(keys: Iterable[Key | None]) -> dict[Key, list[int]]:
    """Return the ascending indices of each key; None is no key."""
    indices: dict[Key, list[int]] = {}
    for index, key in enumerate(keys):
        if key is not None:
            indices.setdefault(key, []).append(index)
        if index % SLICE_INDEXED == SLICE_INDEXED - 1:
            await yield_to_event_loop()
    return indices


async def sums_at(rows: RequestRows, indices: Sequence[int], cost_of: CostOf) -> list[RequestSums]:
    """Return the sums of each slice of one model's requests at ascending indices."""
    parts = []
    for first in range(0, len(indices), SLICE_SUMMED):
        parts.append(sums(rows.at(indices[first : first + SLICE_SUMMED]), cost_of))
        await yield_to_event_loop()
    return parts


def summary(total: RequestSums) -> Summary:
    """Return the summary of requests."""
    return Summary(
        totals=total.totals,
        acceptance_ratio=percentiles(total.ratios),
        mean_acceptance_ratio=sum(total.ratios) / len(total.ratios) if total.ratios else None,
        acceptance_length_tokens=percentiles(total.lengths),
        time_per_output_token_seconds=percentiles(total.seconds_per_token),
        speedup_ratio=speedup_estimate(total.speedup),
        below_break_even=total.speedup.below_break_even,
        evaluated=total.speedup.requests,
        rejected=total.rejected,
        repetitive=total.repetitive,
    )


def percentiles(ascending: Sequence[float]) -> Percentiles | None:
    """Return the percentiles of ascending values, each counting once; None if there are none."""
    if not ascending:
        return None
    return Percentiles(*(_percentile(ascending, round(100 * share)) for _, share in SPREAD_QUANTILES))


def _percentile(ascending: Sequence[float], percent: int) -> float:
    """Interpolate as ``statistics.quantiles(method="inclusive")``: type 7 of Hyndman and Fan (1996)."""
    index, part = divmod(percent * (len(ascending) - 1), 100)
    below = ascending[index]
    return below + (ascending[index + 1] - below) * part / 100 if part else below
