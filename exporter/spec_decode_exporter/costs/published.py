"""Published costs of a step with a draft.

A row of ``published.csv`` has an acceptance length and a speed-up, so its step with a draft took as long as
κ = length / speed-up steps without. The extra cost (κ - 1) / K^a is comparable between drafters of one kind,
with a by ``POWERS``. ``benchmarks.published`` measures this rule on sources that it leaves out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from math import inf, log2, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.costs.methods import (
    ANY,
    KINDS,
    LAYER,
    MODEL,
    PASS,
    SEARCH,
    Interval,
    present_name,
)
from spec_decode_exporter.costs.model_architecture import data_rows

POWERS: Final = {LAYER: 0.8, MODEL: 1.0, PASS: 0.3, SEARCH: 0.3, ANY: 0.0}
"""a by kind. The median of 23 pairs of K in one source is 0.83 for layers; of passes there is one pair."""
LOW, HIGH = 0.05, 0.95  # quantiles of the published costs that are the ends of a range
CHEAPER, DEARER, LEAST = 3.0, 1.15, 0.003
"""Factors by which a range is wider than these quantiles, and the least extra cost."""
REACH: Final = 8.0
"""Factor of the load within which costs are compared; all count where fewer than ``MIN_SOURCES`` are near."""
MIN_SOURCES: Final = 4
USABLE: Final = frozenset({"core", "fit", "consumer", "calib"})
"""Values of the column ``kind`` of rows that count; the others lack a number, or measure something else."""
_PER_DOUBLING: Final = 2


class PublishedStep(NamedTuple):
    """Published step with a draft."""

    source: str
    method: str
    running_requests: float
    draft_tokens: int
    acceptance_length: float
    speedup: float

    @classmethod
    def of(cls, row: Mapping[str, str]) -> PublishedStep | None:
        """Return the step of a row of ``published.csv``; None if it does not count."""
        if row["kind"] not in USABLE or row["method"] not in KINDS:
            return None
        tokens, length = int(row["K"]), float(row["acceptance_length_or_rate"])
        length = 1 + length * tokens if length <= 1 else length
        load, speedup = float(row["batch_or_concurrency"] or 1), float(row["measured_speedup"])
        return cls(row["source"].split()[0], row["method"], load, tokens, length, speedup)

    def extra_cost(self, kind: str) -> float:
        """Return (κ - 1) / K^a with the power of a kind."""
        return float((self.acceptance_length / self.speedup - 1) / self.draft_tokens ** POWERS[kind])


class PublishedShare(NamedTuple):
    """Published costs at which an acceptance would pay."""

    paying: int
    costs: int  # all of them

    @property
    def ratio(self) -> float:
        """Share of the costs at which it would pay."""
        return self.paying / self.costs


class PublishedCosts(NamedTuple):
    """Extra costs that others published near a load, ascending."""

    extras: Sequence[float]
    range: Interval  # range of the extra cost

    def paid_by(self, extra: float) -> PublishedShare:
        """Return the costs below an extra cost that an acceptance pays for; rows count alike."""
        return PublishedShare(bisect_left(self.extras, extra), len(self.extras))


@cache
def published_steps(kind: str) -> tuple[PublishedStep, ...]:
    """Return the published steps of a kind of drafters."""
    steps = filter(None, map(PublishedStep.of, data_rows("published.csv")))
    return tuple(step for step in steps if kind in {ANY, KINDS[step.method]})


def published_costs(kind: str, method: str, running_requests: float | None) -> PublishedCosts | None:
    """Return what others published near a load, or at any if it is unknown; None if too few published.

    Too few are less than ``MIN_SOURCES``, or none of the method itself: one of a kind says little of another.
    """
    place = None if running_requests is None else round(_PER_DOUBLING * log2(max(running_requests, 1.0)))
    return _published_costs(kind, present_name(method), place)


@lru_cache(maxsize=1024)
def _published_costs(kind: str, method: str, place: int | None) -> PublishedCosts | None:
    steps = published_steps(kind)
    if kind != ANY and all(step.method != method for step in steps):
        return None
    return costs_near(steps, kind, None if place is None else 2 ** (place / _PER_DOUBLING))


def costs_near(
    steps: Iterable[PublishedStep], kind: str, running_requests: float | None
) -> PublishedCosts | None:
    """Return the costs of steps near a load, or at any; None of fewer than ``MIN_SOURCES`` sources."""
    steps = list(steps)
    if len({step.source for step in steps}) < MIN_SOURCES:
        return None
    load = running_requests or inf
    near = [step for step in steps if load / REACH <= step.running_requests <= load * REACH]
    if len({step.source for step in near}) < MIN_SOURCES:
        near = steps
    (extras, weights), everywhere = _weighted(near, kind), _weighted(steps, kind)
    # At high loads few published a cost: the low end is that of any load, so that it never grows there.
    lowest = min(_quantile(extras, weights, LOW), _quantile(*everywhere, LOW))
    guess, highest = (max(_quantile(extras, weights, share), LEAST) for share in (0.5, HIGH))
    bounds = Interval(min(max(lowest / CHEAPER, LEAST), guess), guess, highest * DEARER)
    return PublishedCosts(extras, bounds)


def split(kind: str, draft_tokens: float) -> tuple[float, float]:
    """Return c and c0 of an extra cost of 1, by the tangent of K^a at this number of draft tokens."""
    power, tokens = POWERS.get(kind, 1.0), max(draft_tokens, 1.0)
    extra = tokens**power
    return power * extra / tokens, (1 - power) * extra


def _weighted(steps: Sequence[PublishedStep], kind: str) -> tuple[Sequence[float], Sequence[float]]:
    """Return the extra costs of steps, ascending, and their cumulative weights.

    A source weighs as much as the root of the number of its rows.
    """
    sizes = Counter(step.source for step in steps)
    pairs = sorted((step.extra_cost(kind), 1 / sqrt(sizes[step.source])) for step in steps)
    extras, weights = zip(*pairs, strict=True)
    return extras, tuple(accumulate(weights))


def _quantile(extras: Sequence[float], weights: Sequence[float], share: float) -> float:
    return extras[bisect_left(weights, share * weights[-1])]
