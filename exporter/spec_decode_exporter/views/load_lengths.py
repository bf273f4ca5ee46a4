"""Acceptance length by load within a window: it may fall with the load, on the same prompts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import inf, sqrt
from operator import truediv
from typing import NamedTuple

from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.estimate import Estimate, estimate_of
from spec_decode_exporter.figures.window_figures import DecodeWork
from spec_decode_exporter.window.engine_windows import columns, scaled


class LengthAtLoad(NamedTuple):
    """Drafts of a window's polls at loads within a doubling."""

    first: int
    """Fewest running requests."""
    last: int
    drafts: int
    length: Estimate
    """Acceptance length."""
    speedup: Estimate | None
    """By the range of the cost at their mean load; None unless the cost is known for this engine."""


def lengths_by_load(its: WindowEvaluation) -> list[LengthAtLoad]:
    """Return the acceptance length by load, ascending; empty without two loads that have bounds."""
    if its.window.mean.running_requests is None:
        return []
    (polls,) = columns(its.increments, "polls")
    loads = list(map(truediv, scaled(its.increments, "load_billionths"), polls))
    places: dict[int, list[int]] = defaultdict(list)
    for place, load in enumerate(loads):
        places[max(1, round(load)).bit_length()].append(place)
    rows = (_at_load(its, 2**bits, places[bits], loads) for bits in sorted(places))
    known = [row for row in rows if row is not None]
    return known if len(known) > 1 else []


def _at_load(
    its: WindowEvaluation, end: int, places: Sequence[int], loads: Sequence[float]
) -> LengthAtLoad | None:
    """Return the row of loads below ``end``; their share of the polls has that share of the cosines."""
    tokens, steps, drafts, drafted, accepted = ([column[place] for place in places] for column in its.works)
    work = DecodeWork(sum(tokens), sum(steps), min(sum(drafts), sum(steps)), sum(drafted))
    cosines, possible = round(its.cosines * len(places) / len(loads)), (0.0, len(its.positions) or inf)
    error = sqrt((its.draft_variance or 0.0) / (sum(drafts) or 1))
    found = estimate_of(accepted, drafts, cosines, possible, error)
    if found is None:
        return None
    mean = sum(loads[place] for place in places) / len(places)
    cost = its.known.cost.at(mean, work.draft_tokens / sum(drafts))
    speedup = None
    if cost is not None and not cost.is_typical and work.steps:
        value, lower, upper = (each.speedup(work) for each in (cost.guess, cost.high, cost.low))
        speedup = Estimate(value, lower, upper, found.standard_error)
    length = found._replace(value=1 + found.value, lower=1 + found.lower, upper=1 + found.upper)
    return LengthAtLoad(end // 2, end - 1, sum(drafts), length, speedup)
