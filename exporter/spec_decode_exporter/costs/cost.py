"""Cost of speculation: c for each draft token and c0 for each step that drafts, in plain decode steps.

A plain step is a decode step of the target model without speculation. c is one more draft token, drafted and
verified; c0 does not depend on the number of draft tokens. S steps with D drafts of T tokens take
S + c0·D + c·T plain steps, or S·(1 + c0) + c·T if the drafter searches in every step.

Verdicts and bounds hold for all costs within its range. docs/explanation/semantics.md has the sources.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import pairwise
from math import log, sqrt
from operator import add
from typing import Final, NamedTuple

from spec_decode_exporter.config.cost_settings import Architecture, CostSettings
from spec_decode_exporter.costs.model_architecture import (
    UNKNOWN_DEPLOYMENT,
    UNKNOWN_TARGET,
    Deployment,
    TargetModel,
    target_model,
)
from spec_decode_exporter.costs.typical_costs import (
    UNKNOWN_METHOD,
    DrafterCost,
    Range,
    drafter_cost,
    drafting,
    every_step_pays,
    fixed_tokens,
    pass_by_size,
    together,
    verifying,
)
from spec_decode_exporter.figures.window_figures import Price, Work

VALID_FACTOR: Final = 2.0
"""A cost is valid from its load divided by this to its load times this."""
_UNKNOWN_LOADS: Final = (1.0, 64.0)
"""Loads whose costs together are the typical cost at an unknown load."""

_FULL_STEP: Final = 1.0
"""Verifying one token never costs more than a plain step."""
CONFIGURED_MARGIN: Final = 0.25
"""Assumed relative error of a configured cost: another day, other prompts, a number read from a chart."""
UNSTATED_LOAD: Final = 4.0
"""Load of a cost that is configured without one: people measure with few requests."""


class CostSource(StrEnum):
    """Source of a cost, the most certain first; the value is the ``source`` label."""

    EXPERIMENT = "experiment"
    """Step times of this engine with drafts, and of the baseline of its experiment without."""
    MEASURED = "measured"
    """Step times of this engine at the same load with and without drafts."""
    BASELINE = "baseline"
    """Step times with drafts, and those learned while the target served the model without speculation."""
    CONFIGURED = "configured"
    SIZES = "sizes"
    """Numbers of parameters of the draft model and of the target model."""
    LOAD_RANGE = "load_range"
    """``SIZES`` or ``TYPICAL``, up to what the engine's steps at other loads allow: see ``load_range``."""
    TYPICAL = "typical"
    """Range of costs of the method over published models: see ``typical_costs``."""


ESTIMATED: Final = (CostSource.SIZES, CostSource.TYPICAL)
"""Sources that are not about the server itself."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of speculation at one load: the best guess, between the lowest and the highest possible one."""

    token: Range
    """c."""
    step: Range
    """c0."""
    source: CostSource
    running_requests: float | None
    """Load at which it is known; None: at the present one."""
    every_step: bool
    """True if steps without a draft pay c0 too."""

    @property
    def low(self) -> Price:
        """Lowest possible cost."""
        return Price(self.token.low, self.step.low, self.every_step)

    @property
    def guess(self) -> Price:
        """Best guess."""
        return Price(self.token.guess, self.step.guess, self.every_step)

    @property
    def high(self) -> Price:
        """Highest possible cost."""
        return Price(self.token.high, self.step.high, self.every_step)

    def limited(self, work: Work, kappa: float) -> Cost:
        """Return this cost up to one at which the steps of ``work`` take ``kappa`` plain steps each."""
        guess, high = work.plain_steps(self.guess), work.plain_steps(self.high)
        if high <= max(guess, kappa * work.steps):
            return self
        share = max(kappa * work.steps - guess, 0.0) / (high - guess)
        token, step = (
            each._replace(high=each.guess + share * each.above) for each in (self.token, self.step)
        )
        return replace(self, token=token, step=step, source=CostSource.LOAD_RANGE)

    def spanning(self, other: Cost) -> Cost:
        """Return this cost with a range that contains that of another one."""
        token, step = _spanning([self.token, other.token]), _spanning([self.step, other.step])
        return replace(self, token=token, step=step)

    def within(self, other: Cost, tokens: float) -> Cost:
        """Return this cost within the range of another one, of a step with ``tokens`` draft tokens.

        It remains where it excludes a part of that range. An end that excludes the guess is no limit.
        """
        low, guess, high = (its.step + tokens * its.token for its in (self.low, self.guess, self.high))
        lowest, highest = (its.step + tokens * its.token for its in (other.low, other.high))
        if lowest < low or high < highest:
            return self
        below = (guess - lowest) / (guess - low) if low < lowest <= guess else 1.0
        above = (highest - guess) / (high - guess) if guess <= highest < high else 1.0
        token, step = (
            Range(its.guess - below * (its.guess - its.low), its.guess, its.guess + above * its.above)
            for its in (self.token, self.step)
        )
        return replace(self, token=token, step=step)

    def is_valid_at(self, running_requests: float | None) -> bool:
        """Return whether the cost is valid at a load: from half to twice its own."""
        if self.running_requests is None:
            return True
        return running_requests is not None and is_near(self.running_requests, running_requests)


class Point(NamedTuple):
    """c at one load."""

    running_requests: float
    token: Range


@dataclass(frozen=True, slots=True)
class Curve:
    """c by load, interpolated linearly between the known loads.

    Its range contains the interpolation by the logarithm too: c of a dense model grows in proportion to the
    load before arithmetic limits it, and that of a mixture of experts falls with each doubling, or faster.
    """

    points: tuple[Point, ...]
    """Ascending by load; at least one."""
    source: CostSource
    step: float = 0.0
    """Part of c0 that is the same at every load."""
    step_tokens: float = 0.0
    """Part of c0 that is proportional to c, in draft tokens."""

    def at(self, running_requests: float) -> Point:
        """Return c at a load; beyond the known loads that of the nearest, with its load."""
        above = bisect_left(self.points, running_requests, key=_load)
        if above in {0, len(self.points)}:
            return self.points[0 if above == 0 else -1]
        (begin, low), (end, high) = self.points[above - 1 : above + 1]
        share = (running_requests - begin) / (end - begin)
        linear = _between(share, low, high)
        share = log(running_requests / begin) / log(end / begin) if begin > 0 else share
        curved = _between(share, low, high)
        lowest = min(linear.low, curved.low)
        if 0 < high.low < low.low:  # that of a mixture falls in proportion to a power of the load
            lowest = min(lowest, low.low * (high.low / low.low) ** share)
        token = Range(lowest, linear.guess, max(linear.high, curved.high))
        return Point(running_requests, token)

    def step_at(self, point: Point) -> Range:
        """Return c0 at one of the loads; a configured one has a range of its own."""
        if self.source is CostSource.CONFIGURED:
            return _around(self.step)
        return Range(*(self.step + self.step_tokens * each for each in point.token))

    def guess(self, running_requests: float, *, every_step: bool) -> Price:
        """Return the best guess of the cost at a load."""
        point = self.at(running_requests)
        return Price(point.token.guess, self.step_at(point).guess, every_step)


@dataclass(frozen=True)
class CostModel:
    """Everything that is known of an engine's cost."""

    settings: CostSettings | None = None
    measured: tuple[Curve, ...] = ()
    """Measured cost, the most certain source first: see ``measured_curves``."""
    method: str = ""
    """In vLLM's spelling; empty if unknown."""
    target: TargetModel = UNKNOWN_TARGET
    deployment: Deployment = UNKNOWN_DEPLOYMENT
    counts_verified: bool = True
    """False if drafts may not be verified: then what is typical of verified ones limits no measured cost."""

    def at(self, running_requests: float | None, tokens: float, context: float | None = None) -> Cost | None:
        """Return the cost at a load from the most certain source; None if unknown.

        Verifying at a high load depends on the number of draft tokens of a draft, and on the tokens of a
        request in the KV cache, ``context``.
        """
        measured = []
        if running_requests is not None:
            measured = [self.by_curve(curve, running_requests) for curve in self.measured]
        here = (cost for cost in measured if cost.is_valid_at(running_requests))
        found = (
            next(here, None)
            or self._configured(running_requests, tokens, context)
            or next(iter(measured), None)
        )
        if found is not None and (found.source is not CostSource.MEASURED or not self.counts_verified):
            return found
        estimated = self._estimated(running_requests, tokens, context)
        return found.within(estimated, tokens) if found and estimated else found or estimated

    def _estimated(self, running_requests: float | None, tokens: float, context: float | None) -> Cost | None:
        """Return the cost by the sizes of the models, else the typical one; None if neither is known."""
        its = self.settings
        if its is not None and its.draft_parameters is not None:
            return self._by_sizes(its, running_requests, tokens, context)
        is_known = drafter_cost(self.method) is not None and not self.target.is_tiny
        return self.typical(running_requests, tokens, context) if is_known else None

    def typical(self, running_requests: float | None, tokens: float, context: float | None = None) -> Cost:
        """Return what drafting by the method usually costs; that of any drafter if it is unknown."""
        verified = self._verifying(running_requests, tokens, context)
        loads, about = _loads(running_requests), (self.method, self.target, self.deployment)
        drafters = [drafting(*about, load) for load in loads]
        token, step = _spanning([its.token for its in drafters]), _spanning([its.step for its in drafters])
        return self._cost(CostSource.TYPICAL, *together(token, verified, step, tokens))

    def by_curve(self, curve: Curve, running_requests: float) -> Cost:
        """Return the cost at a load by the nearest known one, with a wider range if that is another."""
        point = curve.at(running_requests)
        factor = max(running_requests, 1.0) / point.running_requests
        if is_near(point.running_requests, running_requests):
            factor = 1.0 if self.target.architecture is Architecture.DENSE else sqrt(factor)
        low, guess, high = curve.step_at(point)
        step = Range(low * min(factor, 1 / factor), guess, high)  # longer steps wait less for the host
        return self._cost(curve.source, self._widened(point.token, factor), step, point.running_requests)

    def crossover(self, work: Work | None) -> float | None:
        """Return the load above which speculation does not pay, at the acceptance of ``work``.

        The gain is interpolated between known loads. None if speculation pays at all of them, or at none.
        """
        curve = self.best_curve
        if work is None or curve is None:
            return None

        def gain(load: float) -> float:
            return work.tokens - work.plain_steps(curve.guess(load, every_step=self.pays_every_step))

        for (low, _), (high, _) in pairwise(curve.points):
            before, after = gain(low), gain(high)
            if before >= 0 and after < 0:
                return low + (high - low) * before / (before - after)
        return None

    @cached_property
    def best_curve(self) -> Curve | None:
        """Most certain cost that is known at several loads; None if there is none."""
        curves = (*self.measured, self._stated)
        return next((curve for curve in curves if curve is not None and len(curve.points) > 1), None)

    @property
    def pays_every_step(self) -> bool:
        """True if steps without a draft pay c0 too."""
        return every_step_pays(self.method)

    @cached_property
    def _drafter(self) -> DrafterCost:
        """Typical cost of the drafter beside this target model with one request; it falls with the load."""
        return drafting(self.method, self.target, self.deployment)

    @cached_property
    def _stated(self) -> Curve | None:
        """Cost that the configuration states, by load or at one; None if it states sizes, or nothing."""
        its = self.settings
        if its is None or its.draft_parameters is not None:
            return None
        loads = [(each.running_requests, each.draft_cost_ratio) for each in its.loads]
        loads = loads or [(its.running_requests or UNSTATED_LOAD, its.draft_cost_ratio or 0.0)]
        points = tuple(Point(load, _around(ratio)) for load, ratio in loads)
        return Curve(points, CostSource.CONFIGURED, its.fixed_cost_ratio)

    def _configured(
        self, running_requests: float | None, tokens: float, context: float | None
    ) -> Cost | None:
        curve, its = self._stated, self.settings
        if curve is None:
            return None if its is None else self._by_sizes(its, running_requests, tokens, context)
        if running_requests is not None:
            return self.by_curve(curve, running_requests)
        token = _spanning([point.token for point in curve.points])
        return self._cost(curve.source, token, _around(curve.step), curve.points[0].running_requests)

    def _by_sizes(
        self, settings: CostSettings, running_requests: float | None, tokens: float, context: float | None
    ) -> Cost:
        """Return the cost by the sizes of the models: that of drafting, and a typical one of verifying."""
        drafter = pass_by_size((settings.draft_parameters or 0.0) / (settings.target_parameters or 1.0))
        verify, fixed = settings.verify_cost_ratio, settings.fixed_cost_ratio
        verified = _around(verify) if verify else self._verifying(running_requests, tokens, context)
        step = _around(fixed) if fixed else UNKNOWN_METHOD.step
        if self.deployment.drafts_in_parallel:  # one pass
            step, drafter = Range(*map(add, step, drafter)), Range(0.0, 0.0, 0.0)
        return self._cost(CostSource.SIZES, *together(drafter, verified, step, tokens))

    def _verifying(self, running_requests: float | None, tokens: float, context: float | None) -> Range:
        """Return what verifying a token costs at a load, or at any of the usual ones if it is unknown."""
        loads = _loads(running_requests)
        return _spanning(
            [
                verifying(self.target, load, tokens, context=context, deployment=self.deployment)
                for load in loads
            ]
        )

    def _widened(self, token: Range, factor: float) -> Range:
        """Return c at ``factor`` times the load at which it is known: from c to c times the factor.

        A verified token costs the same while memory limits decoding, and in proportion to the load beyond;
        that of a mixture of experts may also fall with the load.
        """
        lower, higher = min(factor, 1.0), max(factor, 1.0)
        if self.target.architecture is not Architecture.DENSE:
            lower, higher = min(factor, 1 / factor), max(factor, 1 / factor)
        return Range(token.low * lower, token.guess, token.high * higher)

    def _cost(self, source: CostSource, token: Range, step: Range, load: float | None = None) -> Cost:
        """Return a cost within what is physically possible."""
        high = max(token.guess, min(token.high, _FULL_STEP + self._drafter.token.high))
        token = Range(min(token.low, token.guess), token.guess, high)
        step = Range(min(step.low, step.guess), step.guess, max(step.high, step.guess))
        return Cost(token, step, source, load, self.pays_every_step)


def measured_curves(
    found: Iterable[tuple[CostSource, Point]], method: str, deployment: Deployment = UNKNOWN_DEPLOYMENT
) -> tuple[Curve, ...]:
    """Return measured costs by source, the most certain first; ``method`` splits them into c and c0."""
    by_source: dict[CostSource, list[Point]] = {}
    fixed = fixed_tokens(method, deployment)
    for source, point in found:
        by_source.setdefault(source, []).append(point)
    return tuple(
        Curve(tuple(sorted(by_source[source], key=_load)), source, step_tokens=fixed)
        for source in CostSource
        if source in by_source
    )


def share_by_name(draft_model: str, target: TargetModel) -> float | None:
    """Return a draft model's part of what a plain step reads, by its name; None if unknown."""
    draft, whole = target_model(draft_model).read_bytes, target.read_bytes
    return draft / whole if draft and whole else None


@lru_cache(maxsize=64)
def sizes_of(share: float | None) -> CostSettings | None:
    """Return the cost by that part; None if it is unknown."""
    return CostSettings(draft_parameters=min(share, 1.0), target_parameters=1.0) if share else None


def is_near(known: float, running_requests: float) -> bool:
    """Return whether a cost known at one load is valid at another."""
    return known / VALID_FACTOR <= running_requests <= VALID_FACTOR * known


def _loads(running_requests: float | None) -> tuple[float, ...]:
    """Return a load, or the usual ones if it is unknown."""
    return _UNKNOWN_LOADS if running_requests is None else (running_requests,)


def _around(value: float) -> Range:
    """Return a configured value with its relative error."""
    return Range((1 - CONFIGURED_MARGIN) * value, value, (1 + CONFIGURED_MARGIN) * value)


def _spanning(ranges: Sequence[Range]) -> Range:
    """Return the range of several ranges, with the guess of the first."""
    return Range(min(each.low for each in ranges), ranges[0].guess, max(each.high for each in ranges))


def _load(point: Point) -> float:
    return point.running_requests


def _between(share: float, begin: Range, end: Range) -> Range:
    return Range(*(low + share * (high - low) for low, high in zip(begin, end, strict=True)))
