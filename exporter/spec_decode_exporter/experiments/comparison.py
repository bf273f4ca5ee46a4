"""Compare two measurements: the change of acceptance, and conditions that make the comparison unfair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from spec_decode_exporter.experiments.comparability_limits import LENGTH_FACTOR, LOAD_FACTOR, SHARE_DIFFERENCE
from spec_decode_exporter.experiments.difference import Difference, difference
from spec_decode_exporter.experiments.measurement import MeasuredFigure, Measurement
from spec_decode_exporter.figures.latency import Edges, edges
from spec_decode_exporter.figures.quantiles import LATENCY_QUANTILES
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets


class Outcome(StrEnum):
    """Change of the acceptance rate."""

    BETTER = "better"
    """It rose, statistically significant (95 %)."""
    SAME = "same"
    """Chance explains the difference, and it certainly fell by at most the threshold."""
    LOWER = "lower"
    """It fell, statistically significant (95 %), and certainly by at most the threshold."""
    FELL = "fell"
    """It certainly fell by more than the threshold."""
    UNCERTAIN = "uncertain"
    """A fall by more than the threshold is neither certain nor excluded: too few requests, or too near."""
    NOT_COMPARABLE = "not_comparable"
    """The number of draft tokens differs, which changes the acceptance rate by itself."""


class Reason(StrEnum):
    """Reason for which a comparison is not quite fair."""

    DRAFT_TOKENS = "draft_tokens"
    LOAD = "load"
    OUTPUT_TOKENS = "output_tokens"
    PROMPT_TOKENS = "prompt_tokens"
    PREFIX_CACHE = "prefix_cache"
    COVERAGE = "coverage"


@dataclass(frozen=True, slots=True)
class Caution:
    """A difference between the measurements beside the intended change."""

    reason: Reason
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Changes between two measurements."""

    outcome: Outcome
    threshold: float
    """Tolerated fall of the acceptance rate, between 0 and 1."""
    quantities: Mapping[str, Difference]
    """Figures that both have, by key."""
    positions: tuple[Difference | None, ...]
    conditional: tuple[Difference | None, ...]
    latencies: Mapping[tuple[Latency, str], Difference]
    """Quantiles, by latency and percentile."""
    latency_edges: Mapping[tuple[Latency, str], tuple[Edges | None, Edges | None]]
    """Edges of the bucket of each quantile, before and after."""
    cautions: tuple[Caution, ...]

    @property
    def acceptance(self) -> Difference | None:
        """The acceptance rates, if both drafted."""
        return self.quantities.get("draft_acceptance_ratio")


def compare(
    before: Measurement, after: Measurement, threshold: float, engines: tuple[int, int] = (1, 1)
) -> Comparison:
    """Compare ``after`` with ``before``; the acceptance rate may fall by ``threshold``, between 0 and 1.

    ``engines`` is the number of engines that each one sums: load is compared per engine.
    """
    quantities = {
        key: difference(figure, after.quantities[key])
        for key, figure in before.quantities.items()
        if key in after.quantities
    }
    return Comparison(
        outcome=_outcome(before, after, quantities.get("draft_acceptance_ratio"), threshold),
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
            for name, share in LATENCY_QUANTILES
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
    return tuple(None if then is None or now is None else difference(then, now) for then, now in pairs)


def _latencies(before: Measurement, after: Measurement) -> Iterator[tuple[tuple[Latency, str], Difference]]:
    for latency, histogram in before.latency_seconds.items():
        if latency not in after.latency_seconds:
            continue
        later = after.latency_seconds[latency].quantiles
        for percentile, figure in histogram.quantiles.items():
            other = later[percentile]
            if figure is not None and other is not None:
                yield (latency, percentile), difference(figure, other)


def _edges(measurement: Measurement, latency: Latency, share: float) -> Edges | None:
    histogram = measurement.latency_seconds[latency]
    return edges(share, Buckets((*histogram.bounds, inf), histogram.counts))


class _Rule(NamedTuple):
    """Limit beyond which a figure makes two measurements unlike."""

    reason: Reason
    key: str
    factor: float | None = None
    share: float | None = None


_RULES: Final = (
    _Rule(Reason.LOAD, "running_requests", factor=LOAD_FACTOR),
    _Rule(Reason.OUTPUT_TOKENS, "output_tokens_per_request", factor=LENGTH_FACTOR),
    _Rule(Reason.PROMPT_TOKENS, "prompt_tokens_per_request", factor=LENGTH_FACTOR),
    _Rule(Reason.PREFIX_CACHE, "prefix_cache_hit_ratio", share=SHARE_DIFFERENCE),
    _Rule(Reason.COVERAGE, "coverage_ratio", share=SHARE_DIFFERENCE),
)


def _cautions(
    before: Measurement,
    after: Measurement,
    quantities: Mapping[str, Difference],
    engines: tuple[int, int],
) -> Iterator[Caution]:
    if before.tokens and after.tokens and before.tokens != after.tokens:
        yield Caution(Reason.DRAFT_TOKENS, before.tokens, after.tokens)
    for rule in _RULES:
        moved = quantities.get(rule.key)
        if moved is not None and rule.reason is Reason.LOAD:
            then, now = engines
            moved = difference(moved.before.divided(then), moved.after.divided(now))
        if moved is not None and not _are_alike(moved, rule):
            yield Caution(rule.reason, moved.before.value, moved.after.value)


def _are_alike(moved: Difference, rule: _Rule) -> bool:
    """Return whether a figure is the same within the rule's limits, or within chance."""
    low, high = sorted((moved.before.value, moved.after.value))
    near = high <= low * rule.factor if rule.factor else high - low <= (rule.share or 0.0)
    return near or (moved.lower is not None and not moved.is_beyond_chance)
