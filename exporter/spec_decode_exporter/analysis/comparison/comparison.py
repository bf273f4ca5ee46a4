"""Two measurements held against each other: whether acceptance fell, and whether the two can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.comparison.difference import Difference, difference
from spec_decode_exporter.analysis.comparison.measure import PERCENTILES
from spec_decode_exporter.analysis.comparison.measurement import MeasuredFigure, Measurement, Quantity
from spec_decode_exporter.figures.latency import Edges, edges
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets

COMPARABLE_LOAD: Final = 1.5
"""Latency is compared where the later load is between this many times the earlier one and its inverse."""
COMPARABLE_REQUESTS: Final = 1.25
"""Requests are alike whose mean lengths differ by no more than this factor, or by no more than chance."""
COMPARABLE_SHARE: Final = 0.1
"""Shares, of a cache or of steps with a draft, are alike that differ by no more than this."""


class Outcome(StrEnum):
    """What became of the acceptance rate."""

    BETTER = "better"
    """It rose, beyond chance."""
    SAME = "same"
    """Chance explains the difference, and it certainly fell by no more than the threshold."""
    LOWER = "lower"
    """It fell beyond chance, and certainly by no more than the threshold."""
    FELL = "fell"
    """It certainly fell by more than the threshold."""
    UNCERTAIN = "uncertain"
    """Whether it fell by more than the threshold cannot be said: too few requests, or too near."""
    NOT_COMPARABLE = "not_comparable"
    """The number of draft tokens is another, and with it the acceptance rate by itself."""


class Reason(StrEnum):
    """Why a comparison is not quite fair."""

    DRAFT_TOKENS = "draft_tokens"
    LOAD = "load"
    OUTPUT_TOKENS = "output_tokens"
    PROMPT_TOKENS = "prompt_tokens"
    PREFIX_CACHE = "prefix_cache"
    COVERAGE = "coverage"


@dataclass(frozen=True, slots=True)
class Caution:
    """Something that differs between the measurements, and with it more than what was changed on purpose."""

    reason: Reason
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two measurements."""

    outcome: Outcome
    threshold: float
    """By how much the acceptance rate may fall, between 0 and 1."""
    quantities: Mapping[Quantity, Difference]
    """Those that both have."""
    positions: tuple[Difference | None, ...]
    conditional: tuple[Difference | None, ...]
    latencies: Mapping[tuple[Latency, str], Difference]
    """Quantiles, by latency and percentile."""
    latency_edges: Mapping[tuple[Latency, str], tuple[Edges | None, Edges | None]]
    """Between which edges of a bucket each of these lay, and lies now."""
    cautions: tuple[Caution, ...]

    @property
    def acceptance(self) -> Difference | None:
        """The acceptance rates, where both drafted."""
        return self.quantities.get(Quantity.DRAFT_ACCEPTANCE_RATIO)


def compare(
    before: Measurement, after: Measurement, threshold: float, engines: tuple[int, int] = (1, 1)
) -> Comparison:
    """Hold ``after`` against ``before``; the acceptance rate may fall by ``threshold``, between 0 and 1.

    ``engines`` says of how many engines each is the sum: a batch, and with it latency, is that of one.
    """
    quantities = {
        quantity: difference(found, after.quantities[quantity])
        for quantity, found in before.quantities.items()
        if quantity in after.quantities
    }
    return Comparison(
        outcome=_outcome(before, after, quantities.get(Quantity.DRAFT_ACCEPTANCE_RATIO), threshold),
        threshold=threshold,
        quantities=quantities,
        positions=_each(before.position_acceptance_ratio, after.position_acceptance_ratio),
        conditional=_each(
            before.position_conditional_acceptance_ratio, after.position_conditional_acceptance_ratio
        ),
        latencies=dict(_latencies(before, after)),
        latency_edges={
            (latency, name): (_edges(before, latency, share), _edges(after, latency, share))
            for latency in before.latency_seconds.keys() & after.latency_seconds.keys()
            for name, share in PERCENTILES
        },
        cautions=tuple(_cautions(before, after, quantities, engines)),
    )


def _outcome(
    before: Measurement, after: Measurement, acceptance: Difference | None, threshold: float
) -> Outcome:
    if before.tokens and after.tokens and before.tokens != after.tokens:
        return Outcome.NOT_COMPARABLE
    if acceptance is None or acceptance.lower is None or acceptance.upper is None:
        return Outcome.UNCERTAIN
    if acceptance.upper < -threshold:
        return Outcome.FELL
    if acceptance.lower < -threshold:
        return Outcome.UNCERTAIN
    if not acceptance.is_beyond_chance:
        return Outcome.SAME
    return Outcome.BETTER if acceptance.change > 0 else Outcome.LOWER


def _each(
    before: Sequence[MeasuredFigure | None], after: Sequence[MeasuredFigure | None]
) -> tuple[Difference | None, ...]:
    pairs = zip(before, after, strict=False)
    return tuple(None if one is None or two is None else difference(one, two) for one, two in pairs)


def _latencies(before: Measurement, after: Measurement) -> Iterator[tuple[tuple[Latency, str], Difference]]:
    for latency, histogram in before.latency_seconds.items():
        if latency not in after.latency_seconds:
            continue
        later = after.latency_seconds[latency].quantiles
        for percentile, found in histogram.quantiles.items():
            other = later[percentile]
            if found is not None and other is not None:
                yield (latency, percentile), difference(found, other)


def _edges(measurement: Measurement, latency: Latency, share: float) -> Edges | None:
    histogram = measurement.latency_seconds[latency]
    return edges(share, Buckets((*histogram.bounds, inf), histogram.counts))


class _Rule(NamedTuple):
    """When a quantity differs by so much that two measurements are not alike."""

    reason: Reason
    quantity: Quantity
    factor: float | None = None
    share: float | None = None


_RULES: Final = (
    _Rule(Reason.LOAD, Quantity.RUNNING_REQUESTS, factor=COMPARABLE_LOAD),
    _Rule(Reason.OUTPUT_TOKENS, Quantity.OUTPUT_TOKENS, factor=COMPARABLE_REQUESTS),
    _Rule(Reason.PROMPT_TOKENS, Quantity.PROMPT_TOKENS, factor=COMPARABLE_REQUESTS),
    _Rule(Reason.PREFIX_CACHE, Quantity.PREFIX_CACHE_HITS, share=COMPARABLE_SHARE),
    _Rule(Reason.COVERAGE, Quantity.COVERAGE, share=COMPARABLE_SHARE),
)


def _cautions(
    before: Measurement,
    after: Measurement,
    quantities: Mapping[Quantity, Difference],
    engines: tuple[int, int],
) -> Iterator[Caution]:
    if before.tokens and after.tokens and before.tokens != after.tokens:
        yield Caution(Reason.DRAFT_TOKENS, before.tokens, after.tokens)
    for rule in _RULES:
        found = quantities.get(rule.quantity)
        if found is not None and rule.reason is Reason.LOAD:
            then, now = engines
            found = difference(found.before.divided(then), found.after.divided(now))
        if found is not None and not _are_alike(found, rule):
            yield Caution(rule.reason, found.before.value, found.after.value)


def _are_alike(found: Difference, rule: _Rule) -> bool:
    """Return whether a quantity is the same within the rule's limits, or as far as chance lets one see."""
    low, high = sorted((found.before.value, found.after.value))
    near = high <= low * rule.factor if rule.factor else high - low <= (rule.share or 0.0)
    return near or (found.lower is not None and not found.is_beyond_chance)
