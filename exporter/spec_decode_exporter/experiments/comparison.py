"""Compare two measurements: the change of acceptance, and conditions that make the comparison unfair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from typing import Final, NamedTuple

from spec_decode_exporter.experiments.comparability import LENGTH_FACTOR, LOAD_FACTOR, are_near, are_within
from spec_decode_exporter.experiments.difference import Difference, difference
from spec_decode_exporter.experiments.measurement import MeasuredFigure, Measurement
from spec_decode_exporter.figures.quantile import Quantile
from spec_decode_exporter.scrape.page.engine_table import Latency


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


class Caution(NamedTuple):
    """A difference between the measurements beside the intended change."""

    reason: Reason
    before: float
    after: float


Limit = tuple[str, Callable[[float, float], bool]]
"""Key of a figure, and whether two values of it are alike."""
_LIMITS: Final[Mapping[Reason, Limit]] = {
    Reason.LOAD: ("running_requests", partial(are_within, LOAD_FACTOR)),
    Reason.OUTPUT_TOKENS: ("output_tokens_per_request", partial(are_within, LENGTH_FACTOR)),
    Reason.PROMPT_TOKENS: ("prompt_tokens_per_request", partial(are_within, LENGTH_FACTOR)),
    Reason.PREFIX_CACHE: ("prefix_cache_hit_ratio", are_near),
    Reason.COVERAGE: ("coverage_ratio", are_near),
}


class Comparison:
    """Changes between two measurements."""

    def __init__(
        self, before: Measurement, after: Measurement, threshold: float, engines: tuple[int, int] = (1, 1)
    ) -> None:
        """Compare ``after`` with ``before``.

        Args:
            before: Measurement of the reference.
            after: Measurement now.
            threshold: Tolerated fall of the acceptance rate, between 0 and 1.
            engines: Number of engines that each one sums: load is compared per engine.
        """
        self.before = before
        self.after = after
        self.threshold = threshold
        self._engines = engines

    @cached_property
    def quantities(self) -> dict[str, Difference]:
        """Figures that both have, by key."""
        others = self.after.quantities
        return {
            key: difference(one, others[key]) for key, one in self.before.quantities.items() if key in others
        }

    @property
    def acceptance(self) -> Difference | None:
        """The acceptance rates, if both drafted."""
        return self.quantities.get("draft_acceptance_ratio")

    @cached_property
    def positions(self) -> tuple[Difference | None, ...]:
        """Acceptance up to each position that both have."""
        return _each(self.before.position_acceptance_ratio, self.after.position_acceptance_ratio)

    @cached_property
    def conditional(self) -> tuple[Difference | None, ...]:
        """Conditional acceptance at each position that both have."""
        return _each(
            self.before.position_conditional_acceptance_ratio,
            self.after.position_conditional_acceptance_ratio,
        )

    @cached_property
    def latencies(self) -> dict[tuple[Latency, Quantile], Difference]:
        """Quantiles that both have."""
        others = self.after.latency_seconds
        return {
            (latency, quantile): difference(one, other)
            for latency, histogram in self.before.latency_seconds.items()
            if latency in others
            for quantile, one in histogram.quantiles.items()
            if one is not None and (other := others[latency].quantiles[quantile]) is not None
        }

    @property
    def outcome(self) -> Outcome:
        """Change of the acceptance rate in a word."""
        change = self.acceptance
        if self._have_other_depths:
            return Outcome.NOT_COMPARABLE
        if change is None or change.lower is None or change.upper is None:
            return Outcome.UNCERTAIN
        if change.upper < -self.threshold:
            return Outcome.FELL
        if change.lower < -self.threshold:
            return Outcome.UNCERTAIN
        if not change.is_beyond_chance:
            return Outcome.SAME
        return Outcome.BETTER if change.change > 0 else Outcome.LOWER

    @cached_property
    def cautions(self) -> tuple[Caution, ...]:
        """Conditions that differ by more than their limit, and by more than chance."""
        return tuple(self._cautions())

    @property
    def _have_other_depths(self) -> bool:
        before, after = self.before.tokens, self.after.tokens
        return bool(before and after) and before != after

    def _cautions(self) -> Iterator[Caution]:
        if self._have_other_depths:
            yield Caution(Reason.DRAFT_TOKENS, self.before.tokens, self.after.tokens)
        for reason, (key, are_alike) in _LIMITS.items():
            moved = self.quantities.get(key)
            if moved is not None and reason is Reason.LOAD:
                then, now = self._engines
                moved = difference(moved.before.divided(then), moved.after.divided(now))
            if moved is None or (moved.lower is not None and not moved.is_beyond_chance):
                continue
            if not are_alike(moved.before.value, moved.after.value):
                yield Caution(reason, moved.before.value, moved.after.value)


def _each(
    before: Sequence[MeasuredFigure | None], after: Sequence[MeasuredFigure | None]
) -> tuple[Difference | None, ...]:
    pairs = zip(before, after, strict=False)
    return tuple(None if then is None or now is None else difference(then, now) for then, now in pairs)
