"""Compare two measurements: differences with 95 % bounds, and traffic that makes the comparison unfair.

The measurements are independent, so the variance of a difference is the sum of both (``welch``). If only
bounds are known, as of a quantile, the distances to them take the place of t times the errors, each in its
own direction (Zou and Donner, *Construction of confidence limits about effect measures*, Statistics in
Medicine 27, 2008):

    lower = d - √((after - after's lower)² + (before's upper - before)²)        and upper the other way round
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import hypot
from typing import Final, NamedTuple

from spec_decode_exporter.experiments.traffic import LOADS, TRAFFIC, ratios
from spec_decode_exporter.figures.quantile import Quantile
from spec_decode_exporter.figures.student_t import welch
from spec_decode_exporter.reports.reference_document import MeasuredFigure, Measurement
from spec_decode_exporter.scrape.engines import Latency

DRAFT_TOKENS: Final = "draft_tokens"
"""Reason of the caution about another number of draft tokens; the others are parts of the traffic."""


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


class Caution(NamedTuple):
    """A difference between the measurements beside the intended change."""

    reason: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure before and after, in its own unit."""

    before: MeasuredFigure
    after: MeasuredFigure
    change: float
    """After minus before."""
    lower: float | None
    """Null, as is ``upper``, if one of the two has no bounds."""
    upper: float | None

    @property
    def is_beyond_chance(self) -> bool:
        """True if it is statistically significant (95 %)."""
        return self.lower is not None and self.upper is not None and not self.lower <= 0 <= self.upper

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after.value / self.before.value if self.before.value else None


def difference(before: MeasuredFigure, after: MeasuredFigure) -> Difference:
    """Return the difference of a figure."""
    change = after.value - before.value
    distances = _by_errors(before, after) or _by_bounds(before, after)
    if distances is None:
        return Difference(before, after, change, None, None)
    return Difference(before, after, change, change - distances[0], change + distances[1])


def _by_errors(before: MeasuredFigure, after: MeasuredFigure) -> tuple[float, float] | None:
    if before.standard_error is None or after.standard_error is None:
        return None
    _, half = welch([before.standard_error, after.standard_error], [before.degrees or 1, after.degrees or 1])
    return half, half


def _by_bounds(before: MeasuredFigure, after: MeasuredFigure) -> tuple[float, float] | None:
    if before.lower is None or before.upper is None or after.lower is None or after.upper is None:
        return None
    return (
        hypot(after.value - after.lower, before.upper - before.value),
        hypot(after.upper - after.value, before.value - before.lower),
    )


def _differences(
    before: Sequence[MeasuredFigure | None], after: Sequence[MeasuredFigure | None]
) -> tuple[Difference | None, ...]:
    pairs = zip(before, after, strict=False)
    return tuple(None if then is None or now is None else difference(then, now) for then, now in pairs)


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
        return _differences(self.before.position_acceptance_ratio, self.after.position_acceptance_ratio)

    @cached_property
    def conditional(self) -> tuple[Difference | None, ...]:
        """Conditional acceptance at each position that both have."""
        before, after = self.before, self.after
        return _differences(
            before.position_conditional_acceptance_ratio, after.position_conditional_acceptance_ratio
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
            yield Caution(DRAFT_TOKENS, self.before.tokens, self.after.tokens)
        before, after = (
            {key: figure.divided(number if key in LOADS else 1) for key, figure in side.quantities.items()}
            for side, number in zip((self.before, self.after), self._engines, strict=True)
        )
        values = [{key: figure.value for key, figure in side.items()} for side in (after, before)]
        for part, work in ratios(*values):
            key, _, limit = TRAFFIC[part]
            if key not in before or key not in after:  # a part may be known by another figure
                continue
            moved = difference(before[key], after[key])
            if max(work, 1 / work) > limit and (moved.lower is None or moved.is_beyond_chance):
                yield Caution(part, before[key].value, after[key].value)
