"""Cost of drafting by load, as far as it is known at several loads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.analysis.typical_costs import Range, fixed_tokens, undrafted_steps_are_plain
from spec_decode_exporter.config.cost_settings import CostSettings

CONFIGURED_MARGIN = 0.25
"""Assumed relative error of a configured cost: another day, other prompts, a number read from a chart."""
UNSTATED_LOAD = 4.0
"""Load of a cost that is configured without one: people measure with few requests."""
_MEASURED_SOURCES = (CostSource.EXPERIMENT, CostSource.MEASURED, CostSource.BASELINE)


@dataclass(frozen=True, slots=True)
class LoadRange:
    """c at one load: the best guess within its interval."""

    running_requests: float
    cost: Range


@dataclass(frozen=True, slots=True)
class CostCurve:
    """c by load, interpolated linearly between the known loads.

    The interval also contains the interpolation by the logarithm of the load: c of a dense model grows in
    proportion to the load before it is bound by arithmetic; that of a mixture of experts falls with each
    doubling.
    """

    points: tuple[LoadRange, ...]
    """Known costs, ascending by load; at least one."""
    source: CostSource
    fixed_cost_ratio: float = 0.0
    """Part of c0 that is the same at every load."""
    fixed_tokens: float = 0.0
    """Part of c0 that is proportional to c, in draft tokens."""
    fixed_in_every_step: bool = False
    """True if steps without a draft pay c0 too."""

    def at(self, running_requests: float) -> LoadRange:
        """Return c at a load; beyond the known loads that of the nearest, with its load."""
        points = self.points
        above = bisect_left(points, running_requests, key=lambda point: point.running_requests)
        if above in {0, len(points)}:
            return points[0 if above == 0 else -1]
        begin, end = points[above - 1], points[above]
        shares = _shares(running_requests, begin.running_requests, end.running_requests)
        linear, logarithmic = (_between(share, begin.cost, end.cost) for share in shares)
        cost = Range(min(linear.low, logarithmic.low), linear.guess, max(linear.high, logarithmic.high))
        return LoadRange(running_requests, cost)

    def guess(self, running_requests: float) -> StepCost:
        """Return the best guess of the cost at a load."""
        point = self.at(running_requests)
        return StepCost(point.cost.guess, self.fixed_at(point).guess, self.fixed_in_every_step)

    def fixed_at(self, point: LoadRange) -> Range:
        """Return c0 at one of the loads, by c there."""
        return Range(*(self.fixed_cost_ratio + self.fixed_tokens * ratio for ratio in point.cost))


def configured_curve(settings: CostSettings, method: str) -> CostCurve | None:
    """Return the cost that the operator states by load; None if it is stated in another way."""
    if not settings.loads:
        return None
    points = tuple(LoadRange(load.running_requests, around(load.draft_cost_ratio)) for load in settings.loads)
    return _stated(points, settings, method)


def single_curve(settings: CostSettings, method: str) -> CostCurve:
    """Return the one cost that the operator states, at its load."""
    load = settings.running_requests or UNSTATED_LOAD
    return _stated((LoadRange(load, around(settings.draft_cost_ratio or 0.0)),), settings, method)


def measured_curves(measured: Sequence[MeasuredCost], method: str) -> tuple[CostCurve, ...]:
    """Return the measured cost of each source, the most certain source first."""
    if not measured:
        return ()
    in_order = sorted(measured, key=lambda cost: cost.running_requests)
    by_source = (
        (source, [each for each in in_order if each.source is source]) for source in _MEASURED_SOURCES
    )
    return tuple(
        CostCurve(
            tuple(map(_measured, costs)),
            source,
            fixed_tokens=fixed_tokens(method),
            fixed_in_every_step=not undrafted_steps_are_plain(method),
        )
        for source, costs in by_source
        if costs
    )


def best_curve(
    settings: CostSettings | None, measured: Sequence[MeasuredCost], method: str
) -> CostCurve | None:
    """Return the most certain cost that is known at several loads; None if there is none."""
    curves: list[CostCurve | None] = [*measured_curves(measured, method)]
    if settings is not None:
        curves.append(configured_curve(settings, method))
    return next((curve for curve in curves if curve is not None and len(curve.points) > 1), None)


def around(value: float, margin: float = CONFIGURED_MARGIN) -> Range:
    """Return a value with a relative error."""
    return Range((1 - margin) * value, value, (1 + margin) * value)


def _measured(cost: MeasuredCost) -> LoadRange:
    return LoadRange(cost.running_requests, Range(cost.lower, cost.draft_cost_ratio, cost.upper))


def _stated(points: tuple[LoadRange, ...], settings: CostSettings, method: str) -> CostCurve:
    return CostCurve(
        points,
        CostSource.CONFIGURED,
        settings.fixed_cost_ratio,
        fixed_in_every_step=not undrafted_steps_are_plain(method),
    )


def _between(share: float, begin: Range, end: Range) -> Range:
    return Range(*(low + share * (high - low) for low, high in zip(begin, end, strict=True)))


def _shares(load: float, begin: float, end: float) -> tuple[float, float]:
    """Return the place of a load between two others, linearly and by its logarithm."""
    linear = (load - begin) / (end - begin)
    return linear, log(load / begin) / log(end / begin) if begin > 0 else linear
