"""Cost of speculation: c for each draft token and c0 for each step that drafts, in plain decode steps.

A plain step is a decode step of the target model without speculation. c is one more draft token, drafted and
verified; c0 does not depend on the number of draft tokens. S steps with D drafts of T tokens take
S + c0·D + c·T steps without speculation, or S·(1 + c0) + c·T if the drafter searches in every step.

Verdicts and bounds hold for all costs within its range. docs/explanation/semantics.md has the sources.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from math import log, sqrt
from operator import attrgetter
from typing import Final, NamedTuple

from spec_decode_exporter.config.comparison_settings import Architecture, CostSettings
from spec_decode_exporter.costs.methods import ANY, NOTHING, Interval, drafts_what_it_finds, kind_of
from spec_decode_exporter.costs.published import LEAST, PublishedShare, published_costs, split
from spec_decode_exporter.figures.window_figures import DecodeWork

VALID_FACTOR: Final = 2.0  # a cost is valid from its load divided by this to its load times this
CONFIGURED_MARGIN: Final = 0.25
"""Assumed relative error of a configured cost: another day, other prompts, a number read from a chart."""
UNKNOWN_STEP: Final = Interval(LEAST, 1.0, 100.0)
"""Extra cost of a step with a draft if nothing is known of it."""
UNSTATED_LOAD: Final = 4.0  # load of a cost that is configured without one: people measure with few requests


class CostSource(StrEnum):
    """Source of a cost, the most certain first; the value is the ``source`` label."""

    EXPERIMENT = "experiment"
    """Step times of this engine with drafts, and of the baseline of its experiment without."""
    MEASURED = "measured"  # step times of this engine at the same load with and without drafts
    BASELINE = "baseline"
    """Step times with drafts, and those learned while the target served the model without speculation."""
    CONFIGURED = "configured"
    TYPICAL = "typical"  # published costs of the method's kind of drafters: see ``published``


class StepCost(NamedTuple):
    """One possible cost of speculation, in plain decode steps of the target model."""

    token: float  # c: one more draft token, drafted and verified
    step: float  # c0: a step that drafts, independent of its draft tokens
    every_step: bool = False  # True if steps without a draft pay c0 too, as those of an n-gram search

    def paying_steps(self, work: DecodeWork) -> int:
        """Return the number of steps that pay c0."""
        return work.steps if self.every_step else work.drafts

    def plain_steps(self, work: DecodeWork) -> float:
        """Return the number of plain decode steps that take as long: S + c0·D + c·T."""
        return work.steps + self.step * self.paying_steps(work) + self.token * work.draft_tokens

    def speedup(self, work: DecodeWork) -> float:
        """Return the speed-up of decoding by speculation; 1 is no gain, below 1 is slower."""
        return work.tokens / self.plain_steps(work)

    def fixed(self, coverage: float) -> float:
        """Return c0 of a mean step, by the share of steps that draft."""
        return self.step if self.every_step else self.step * coverage


@dataclass(frozen=True, slots=True)
class CostRange:
    """Cost of speculation at one load: the best guess, between the lowest and the highest possible one."""

    low: StepCost
    guess: StepCost
    high: StepCost
    source: CostSource
    running_requests: float | None = None  # load at which it is known; None: at the present one

    @property
    def is_typical(self) -> bool:
        """True if it is by published costs, and not about the server itself."""
        return self.source is CostSource.TYPICAL

    def spanning(self, other: CostRange) -> CostRange:
        """Return this cost with a range that contains that of another one."""
        low, high = map(min, self.low, other.low), map(max, self.high, other.high)
        return replace(self, low=StepCost._make(low), high=StepCost._make(high))


class CostAtLoad(NamedTuple):
    """c at one load."""

    running_requests: float
    token: Interval


_load: Final = attrgetter("running_requests")


@dataclass(frozen=True, slots=True)
class CostByLoad:
    """c by load, interpolated linearly between the known loads.

    Its range contains the interpolation by the logarithm too: c of a dense model grows in proportion to the
    load before arithmetic limits it, and that of a mixture of experts falls with each doubling, or faster.
    """

    points: tuple[CostAtLoad, ...]  # ascending by load; at least one
    source: CostSource
    step: float = 0.0  # part of c0 that is the same at every load
    step_tokens: float = 0.0  # part of c0 that is proportional to c, in draft tokens

    def at(self, running_requests: float) -> CostAtLoad:
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
        token = Interval(lowest, linear.guess, max(linear.high, curved.high))
        return CostAtLoad(running_requests, token)

    def step_of(self, token: Interval) -> Interval:
        """Return c0 at the load of a c; a configured one has a range of its own."""
        if self.source is CostSource.CONFIGURED:
            return _around(self.step)
        return Interval(*(self.step + self.step_tokens * each for each in token))


@dataclass(frozen=True)
class CostSources:
    """Everything that is known of an engine's cost."""

    settings: CostSettings | None = None
    measured: tuple[CostByLoad, ...] = ()  # measured cost, the most certain source first
    method: str = ""  # in vLLM's spelling; empty if unknown
    architecture: Architecture | None = None  # of the target model; None if unknown
    in_parallel: bool = False  # True if one pass of the drafter drafts all tokens

    def at(self, running_requests: float | None, tokens: float) -> CostRange | None:
        """Return the cost at a load from the most certain source; None if unknown."""
        if running_requests is None:
            return self._stated_at_any_load() or self.typical(None, tokens)
        near = (
            curve
            for curve in self.measured
            if is_near(curve.at(running_requests).running_requests, running_requests)
        )
        curve = next(near, None) or self._stated or next(iter(self.measured), None)
        return self.by_curve(curve, running_requests) if curve else self.typical(running_requests, tokens)

    def typical(self, running_requests: float | None, tokens: float) -> CostRange | None:
        """Return the published cost of this many draft tokens; None with too few measurements."""
        costs = published_costs(self.kind, self.method, running_requests)
        if costs is None:
            return None
        token, step = ([extra * part for extra in costs.range] for part in split(self.kind, tokens))
        return self._cost(CostSource.TYPICAL, token, step)

    def possible(self, running_requests: float | None) -> CostRange:
        """Return the range of an unknown cost; it says nothing of other numbers of tokens.

        It is that of all drafters if the method is unknown, and wide if too few published what it costs.
        """
        costs = None if self.kind else published_costs(ANY, "", running_requests)
        return self._cost(CostSource.TYPICAL, NOTHING, costs.range if costs else UNKNOWN_STEP)

    def published_share(
        self, running_requests: float | None, draft_tokens: float, gain: float, paying: float = 1.0
    ) -> PublishedShare | None:
        """Return at how many of the published costs speculation would pay; None if too few published one.

        Of an unknown method those of all drafters count; of a known one only those of its kind.

        Args:
            running_requests: The load; None if it is unknown.
            draft_tokens: Tokens of a draft.
            gain: Accepted tokens for each draft.
            paying: Steps that pay c0 for each draft.
        """
        kind = self.kind or ANY
        costs, (token, step) = published_costs(kind, self.method, running_requests), split(kind, draft_tokens)
        return costs and costs.paid_by(gain / (token * draft_tokens + step * paying))

    @cached_property
    def kind(self) -> str:
        """How the method drafts; empty if the method is unknown."""
        return kind_of(self.method, in_parallel=self.in_parallel)

    def by_curve(self, curve: CostByLoad, running_requests: float) -> CostRange:
        """Return the cost at a load by the nearest known one, with a wider range if that is another."""
        point = curve.at(running_requests)
        factor = max(running_requests, 1.0) / point.running_requests
        if is_near(point.running_requests, running_requests):
            factor = 1.0 if self.architecture is Architecture.DENSE else sqrt(factor)
        low, guess, high = curve.step_of(point.token)
        step = Interval(low * min(factor, 1 / factor), guess, high)  # longer steps wait less for the host
        return self._cost(curve.source, self._widened(point.token, factor), step, point.running_requests)

    def crossover(self, work: DecodeWork | None) -> float | None:
        """Return the load above which speculation does not pay, at the acceptance of ``work``.

        The gain is interpolated between known loads. None if speculation pays at all of them, or at none.
        """
        curve = self.best_curve
        if work is None or curve is None:
            return None
        every_step = drafts_what_it_finds(self.method)
        gains = [
            work.tokens - StepCost(token.guess, curve.step_of(token).guess, every_step).plain_steps(work)
            for _, token in (curve.at(load) for load, _ in curve.points)
        ]
        for ((low, _), before), ((high, _), after) in pairwise(zip(curve.points, gains, strict=True)):
            if before >= 0 and after < 0:
                return low + (high - low) * before / (before - after)
        return None

    @cached_property
    def best_curve(self) -> CostByLoad | None:
        """Most certain cost that is known at several loads; None if there is none."""
        return next(
            (curve for curve in (*self.measured, self._stated) if curve and len(curve.points) > 1), None
        )

    @cached_property
    def _stated(self) -> CostByLoad | None:
        """Cost that the configuration states, by load or at one; None if it states nothing."""
        its = self.settings
        if its is None or (its.draft_cost_ratio is None and not its.loads):
            return None
        loads = [(each.running_requests, each.draft_cost_ratio) for each in its.loads]
        loads = loads or [(its.running_requests or UNSTATED_LOAD, its.draft_cost_ratio or 0.0)]
        points = tuple(CostAtLoad(load, _around(ratio)) for load, ratio in loads)
        return CostByLoad(points, CostSource.CONFIGURED, its.fixed_cost_ratio)

    def _stated_at_any_load(self) -> CostRange | None:
        curve = self._stated
        if curve is None:
            return None
        low, guess, high = zip(*(point.token for point in curve.points), strict=True)
        token, load = Interval(min(low), guess[0], max(high)), curve.points[0].running_requests
        return self._cost(curve.source, token, _around(curve.step), load)

    def _widened(self, token: Interval, factor: float) -> Interval:
        """Return c at ``factor`` times the load at which it is known: from c to c times the factor.

        A verified token costs the same while memory limits decoding, and in proportion to the load beyond;
        that of a mixture of experts may also fall with the load.
        """
        lower, higher = sorted((factor, 1.0 if self.architecture is Architecture.DENSE else 1 / factor))
        return Interval(token.low * lower, token.guess, token.high * higher)

    def _cost(
        self, source: CostSource, token: Iterable[float], step: Iterable[float], load: float | None = None
    ) -> CostRange:
        """Return a cost by the lowest, the guessed and the highest c and c0."""
        every_step = drafts_what_it_finds(self.method)
        low, guess, high = (StepCost(*both, every_step) for both in zip(token, step, strict=True))
        return CostRange(low, guess, high, source, load)


def fixed_tokens(kind: str, draft_tokens: float) -> float:
    """Return c0 over c, in draft tokens: it splits a measured cost of a step with this many."""
    token, step = split(kind, draft_tokens)
    return step / token


def is_near(known: float, running_requests: float) -> bool:
    """Return whether a cost known at one load is valid at another."""
    return known / VALID_FACTOR <= running_requests <= VALID_FACTOR * known


def _around(value: float) -> Interval:
    """Return a configured value with its relative error."""
    return Interval((1 - CONFIGURED_MARGIN) * value, value, (1 + CONFIGURED_MARGIN) * value)


def _between(share: float, begin: Interval, end: Interval) -> Interval:
    return Interval(*(low + share * (high - low) for low, high in zip(begin, end, strict=True)))
