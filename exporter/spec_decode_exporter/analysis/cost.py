"""Cost of drafting: c for each draft token and c0 for each step, in plain decode steps of the target model.

c is the cost of one more draft token, drafted and verified. c0 is the additional cost of a step that drafts,
independent of its draft tokens. S steps with D drafts of T tokens take S + c0·D + c·T plain steps, or
S·(1 + c0) + c·T if the drafter searches in every step.

A cost is an interval: verdicts and bounds hold for all costs within it. docs/explanation/semantics.md states
the sources and the interval of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from spec_decode_exporter.analysis.cost_curve import (
    CostCurve,
    LoadRange,
    around,
    configured_curve,
    measured_curves,
    single_curve,
)
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.analysis.typical_costs import (
    UNKNOWN_METHOD,
    Range,
    drafter_cost,
    drafting,
    together,
    undrafted_steps_are_plain,
    verifying,
)
from spec_decode_exporter.config.cost_settings import Architecture, CostSettings

VALID_FACTOR = 2.0
"""A cost is valid from its load divided by this to its load times this."""
_UNKNOWN_LOADS = (1.0, 64.0)
"""Loads whose costs together are the typical cost at an unknown load."""
_SIZES_DRAFTER = (0.8, 2.5, 0.08)
"""Drafting costs at least 0.8 and at most 2.5 times the ratio of the parameters, plus 0.08: a small model has
nearly as many layers to launch as a large one."""
_FULL_STEP = 1.0
"""Verifying one token never costs more than a plain step."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of speculation at one load: the best guess, and its interval."""

    draft_cost_ratio: float
    """Best guess of c."""
    fixed_cost_ratio: float
    """Best guess of c0."""
    source: CostSource
    running_requests: float | None
    """Load at which it is known; None: at the present one."""
    interval: tuple[StepCost, StepCost] | None = None
    """Lowest and highest cost; None: exact."""
    fixed_in_every_step: bool = False
    """True if steps without a draft pay c0 too."""

    @property
    def low(self) -> StepCost:
        """Lowest possible cost."""
        return self._guess if self.interval is None else self.interval[0]

    @property
    def high(self) -> StepCost:
        """Highest possible cost."""
        return self._guess if self.interval is None else self.interval[1]

    @property
    def _guess(self) -> StepCost:
        return StepCost(self.draft_cost_ratio, self.fixed_cost_ratio, self.fixed_in_every_step)

    def speaks_for(self, running_requests: float | None) -> bool:
        """Return whether it is known for a load: from half to twice its own load."""
        known = self.running_requests
        if known is None:
            return True
        return running_requests is not None and is_near(known, running_requests)


@dataclass(frozen=True, slots=True)
class CostKnowledge:
    """Everything that is known of an engine's cost."""

    settings: CostSettings | None = None
    measured: Sequence[MeasuredCost] = ()
    method: str = ""
    """Method in vLLM's spelling; empty if unknown."""
    architecture: Architecture | None = None
    """Architecture of the target model; None if unknown."""
    experts_ratio: float | None = None
    """Experts of a mixture over the experts of a token; None if unknown."""


def cost_of(known: CostKnowledge, running_requests: float | None, tokens: float) -> Cost | None:
    """Return the cost of speculation at a load, from the most certain source; None if unknown.

    Args:
        known: What is known of the cost.
        running_requests: Present load; None if unknown.
        tokens: Draft tokens of a draft, which verifying at a high load depends on.
    """
    curves = measured_curves(known.measured, known.method)
    if running_requests is not None:
        for curve in curves:
            if _covers(curve, running_requests):
                return cost_by_curve(curve, running_requests, known)
    configured = _configured(known, running_requests, tokens)
    if configured is not None:
        return configured
    if curves and running_requests is not None:
        return cost_by_curve(curves[0], running_requests, known)
    return None if drafter_cost(known.method) is None else typical_cost(known, running_requests, tokens)


def typical_cost(known: CostKnowledge, running_requests: float | None, tokens: float) -> Cost:
    """Return what drafting by the method usually costs; that of any drafter if the method is unknown."""
    drafter = drafting(drafter_cost(known.method) or UNKNOWN_METHOD, known.architecture)
    verified = _verifying(known, running_requests, tokens)
    token, step = together(drafter.token, verified, drafter.step, tokens)
    return _ranged(CostSource.TYPICAL, token, step, known)


def cost_by_curve(curve: CostCurve, running_requests: float, known: CostKnowledge) -> Cost:
    """Return the cost at a load by the nearest known ones."""
    return _at_load(curve, curve.at(running_requests), running_requests, known)


def is_near(known: float, running_requests: float) -> bool:
    """Return whether a cost known at one load is valid at another."""
    return known / VALID_FACTOR <= running_requests <= VALID_FACTOR * known


def _covers(curve: CostCurve, running_requests: float) -> bool:
    return is_near(curve.at(running_requests).running_requests, running_requests)


def _configured(known: CostKnowledge, running_requests: float | None, tokens: float) -> Cost | None:
    settings = known.settings
    if settings is None:
        return None
    if settings.draft_parameters is not None and settings.target_parameters is not None:
        return _by_sizes(settings, known, running_requests, tokens)
    curve = configured_curve(settings, known.method) or single_curve(settings, known.method)
    return (
        _at_any_load(curve, known)
        if running_requests is None
        else cost_by_curve(curve, running_requests, known)
    )


def _at_any_load(curve: CostCurve, known: CostKnowledge) -> Cost:
    """Return the cost at an unknown load: that of all known loads together."""
    cost = _spanning([point.cost for point in curve.points])
    fixed = _spanning([_fixed(curve, point) for point in curve.points])
    return _ranged(curve.source, cost, fixed, known, curve.points[0].running_requests)


def _spanning(ranges: Sequence[Range]) -> Range:
    """Return the range of several ranges, with the guess of the first."""
    return Range(min(each.low for each in ranges), ranges[0].guess, max(each.high for each in ranges))


def _fixed(curve: CostCurve, point: LoadRange) -> Range:
    """Return c0 at a load of a curve; a configured one has no interval of its own."""
    if curve.source is CostSource.CONFIGURED:
        return around(curve.fixed_cost_ratio)
    return curve.fixed_at(point)


def _at_load(curve: CostCurve, point: LoadRange, running_requests: float, known: CostKnowledge) -> Cost:
    """Return the cost of a curve's point at the present load, widened if that is another one."""
    own = point.running_requests
    factor = max(running_requests, 1.0) / own
    if is_near(own, running_requests):
        factor = 1.0 if known.architecture is Architecture.DENSE else sqrt(factor)
    low, guess, high = _fixed(curve, point)
    fixed = Range(low * min(factor, 1 / factor), guess, high)  # longer steps wait less for the host
    return _ranged(curve.source, _widened(point.cost, factor, known.architecture), fixed, known, own)


def _widened(cost: Range, factor: float, architecture: Architecture | None) -> Range:
    """Return c at ``factor`` times the load at which it is known.

    It lies between c and c times the ratio of the loads: a verified token costs the same while memory limits
    decoding, and in proportion to the load beyond. That of a mixture of experts may also fall with the load:
    by a quarter from 4 to 8 requests, where a sixteenth of the experts is active (see ``typical_costs``).
    Near the known load the factor is therefore 1 for a dense model, and else the root of the ratio.
    """
    low, guess, high = cost
    lower, higher = min(factor, 1.0), max(factor, 1.0)
    if architecture is not Architecture.DENSE:
        lower, higher = min(factor, 1 / factor), max(factor, 1 / factor)
    return Range(low * lower, guess, high * higher)


def _by_sizes(
    settings: CostSettings, known: CostKnowledge, running_requests: float | None, tokens: float
) -> Cost:
    """Return the cost by the sizes of the models: those of drafting, and a typical cost of verifying."""
    ratio = (settings.draft_parameters or 0.0) / (settings.target_parameters or 1.0)
    lowest, highest, launches = _SIZES_DRAFTER
    drafter = Range(lowest * ratio, ratio, highest * ratio + launches)
    verified = (
        around(settings.verify_cost_ratio)
        if settings.verify_cost_ratio
        else _verifying(known, running_requests, tokens)
    )
    step = around(settings.fixed_cost_ratio) if settings.fixed_cost_ratio else UNKNOWN_METHOD.step
    return _ranged(CostSource.SIZES, *together(drafter, verified, step, tokens), known)


def _verifying(known: CostKnowledge, running_requests: float | None, tokens: float) -> Range:
    """Return what verifying a token costs at a load, or at any of the usual ones if it is unknown."""

    def at(load: float) -> Range:
        return verifying(known.architecture, load, tokens, known.experts_ratio)

    if running_requests is not None:
        return at(running_requests)
    return _spanning([at(load) for load in _UNKNOWN_LOADS])


def _ranged(
    source: CostSource,
    token: Range,
    step: Range,
    known: CostKnowledge,
    running_requests: float | None = None,
) -> Cost:
    """Return a cost of ranges, within what is physically possible."""
    drafter = drafter_cost(known.method)
    every_step = not undrafted_steps_are_plain(known.method)
    most = _FULL_STEP + drafting(drafter or UNKNOWN_METHOD, known.architecture).token.high
    high = max(token.guess, min(token.high, most))
    return Cost(
        token.guess,
        step.guess,
        source,
        running_requests,
        (
            StepCost(min(token.low, token.guess), min(step.low, step.guess), every_step),
            StepCost(high, max(step.high, step.guess), every_step),
        ),
        every_step,
    )
