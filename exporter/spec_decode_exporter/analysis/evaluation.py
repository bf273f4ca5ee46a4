"""One engine, judged: how sure its numbers are, what speculation costs, whether it pays, and what to do.

Every part is a pure function of its own file. This one puts them together, and keeps the little that must be
remembered: what was said until now, so that advice does not change from one poll to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from spec_decode_exporter.analysis.cost import Cost, cost_curve, cost_of
from spec_decode_exporter.analysis.crossover import crossover_running_requests
from spec_decode_exporter.analysis.depth import NO_SPECULATION, Depth, depths, marginal_benefits, recommended
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.finding import Finding, findings
from spec_decode_exporter.analysis.finding_context import FindingContext
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.recommendation import Action, recommendation
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State, is_whole, state
from spec_decode_exporter.analysis.speedup import speedup_estimate
from spec_decode_exporter.analysis.statistics.ratio_bounds import (
    acceptance_length_estimate,
    acceptance_ratio_estimate,
)
from spec_decode_exporter.analysis.verdict import Verdict, is_sure, verdict
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.core.debounce import Debounce
from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.decode_work import estimated_speedup_ratio
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.server_load import drafting_requests, mean
from spec_decode_exporter.monitor.drops.drop_watch import DropStatus
from spec_decode_exporter.scrape.page.engine_table import Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import Window

_BAD = (Verdict.POOR, Verdict.HARMFUL)
_NEEDS_A_BAD_VERDICT = (Action.DISABLE, Action.LIMIT_BATCH)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is known of an engine besides its counters, and by which thresholds it is judged."""

    speculation: Speculation = field(default_factory=Speculation)
    cost: CostSettings | None = None
    policy: Policy = field(default_factory=Policy)
    reference: ReferenceSettings | None = None
    """What acceptance is held against, where that is known."""


@dataclass(frozen=True, slots=True)
class EvaluationInputs:
    """What the engine showed."""

    windows: tuple[Window, ...]
    """Ascending by length; the last one is judged."""
    latencies: Mapping[Latency, Buckets]
    broken: frozenset[Check]
    speculates: bool
    drafted_before: bool
    """Whether it drafted at all since the server's process began."""
    costs: Sequence[LoadCost]
    """What a draft token was seen to cost, by load."""
    drops: DropStatus = field(default_factory=DropStatus)
    faster: FasterMethod | None = None
    """Another method for the same model that is beyond doubt faster, by an experiment."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How sure one window is. What there are no bounds for is None."""

    acceptance_ratio: Estimate | None
    acceptance_length: Estimate | None
    speedup: Estimate | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is to be said of an engine. What needs a cost is absent where that is unknown."""

    state: State
    verdict: Verdict = Verdict.INSUFFICIENT
    action: Action = Action.COLLECT
    costs: tuple[Cost | None, ...] = ()
    """What speculation cost in each window, at the load of its draft tokens."""
    crossover: float | None = None
    """The running requests from which on speculation stops paying."""
    bounds: tuple[Bounds, ...] = ()
    """One for each window."""
    depths: tuple[Depth, ...] = ()
    marginal_benefits: tuple[float, ...] = ()
    """One for each of the depths."""
    recommended: Depth | None = None
    findings: tuple[Finding, ...] = ()
    faster: FasterMethod | None = None
    """The better method, while an experiment shows one."""
    is_cost_sure: bool = False
    """Whether the cost of the longest window is known well enough, and for its load, to call it harmful."""

    @property
    def cost(self) -> Cost | None:
        """What speculation cost in the longest window."""
        return self.costs[-1] if self.costs else None


UNREACHABLE = Evaluation(State.UNREACHABLE)


class Evaluator:
    """Judges one engine again and again; its advice changes only after a whole long window."""

    def __init__(self, assumptions: Assumptions, longest: float) -> None:
        """Judge by ``assumptions``, which may be replaced; ``longest`` is the longest window in seconds."""
        self.assumptions = assumptions
        self.keep(longest)

    def keep(self, longest: float) -> None:
        """Take the length of another longest window."""
        self._longest = longest
        self._held: Debounce[tuple[Action, int | None]] = Debounce(longest)
        self._advised_at = -inf

    def evaluate(self, facts: EvaluationInputs, now: float) -> Evaluation:
        """Judge what the engine showed until ``now`` (monotonic seconds)."""
        window, policy = facts.windows[-1], self.assumptions.policy
        costs = tuple(self._cost(each, facts) for each in facts.windows)
        bounds = tuple(map(_bounds, facts.windows, costs))
        cost = costs[-1]
        evidence = FindingContext(
            window,
            policy,
            self._state(facts),
            _verdict(window, bounds[-1], cost, policy),
            bounds[-1].acceptance_length,
            cost,
            crossover=self._crossover(facts),
            latencies=facts.latencies,
            broken=facts.broken,
            speculation=self.assumptions.speculation,
            drops=facts.drops,
            recent_length=acceptance_length_tokens(facts.windows[0]),
            faster=facts.faster,
        )
        known = () if cost is None else depths(window, cost)
        action, depth = self._advice(evidence, known, now)
        return Evaluation(
            evidence.state,
            evidence.verdict,
            action,
            costs,
            evidence.crossover,
            bounds,
            known,
            () if cost is None else marginal_benefits(window, cost, known),
            depth,
            findings(replace(evidence, depth=depth)),
            facts.faster,
            is_cost_sure=cost is not None and is_sure(cost, window),
        )

    def _cost(self, window: Window, facts: EvaluationInputs) -> Cost | None:
        if not facts.speculates:
            return None
        assumed = self.assumptions
        return cost_of(assumed.cost, facts.costs, assumed.speculation.method, drafting_requests(window))

    def _crossover(self, facts: EvaluationInputs) -> float | None:
        assumed = self.assumptions
        curve = cost_curve(assumed.cost, facts.costs, assumed.speculation.method)
        return None if curve is None else crossover_running_requests(facts.windows[-1], curve)

    def _state(self, facts: EvaluationInputs) -> State:
        speculation = self.assumptions.speculation
        return state(
            reachable=True,
            speculates=facts.speculates,
            window=facts.windows[-1],
            drafted_before=facts.drafted_before,
            method=speculation.method,
            scheduled_off=speculation.scheduled_off(mean(facts.windows[-1], Gauge.RUNNING_REQUESTS)),
            min_drafts=self.assumptions.policy.min_drafts,
        )

    def _advice(
        self, evidence: FindingContext, known: Sequence[Depth], now: float
    ) -> tuple[Action, Depth | None]:
        """Say what to do, from enough drafts and a whole long window, and stay with it for as long.

        While too little is known there is no advice. If that does not last for a whole long window either,
        the advice is afterwards what it was, so that it does not flicker where drafts are only just enough.
        """
        if evidence.verdict is Verdict.INSUFFICIENT or not is_whole(evidence.window):
            if now - self._advised_at >= self._longest:
                self._held = Debounce(self._longest)
            return Action.COLLECT, None
        self._advised_at = now
        advice = self._fresh_advice(evidence, known)
        action, tokens = self._held.offer(advice, now)
        if action in _NEEDS_A_BAD_VERDICT and evidence.verdict not in _BAD:
            self._held = Debounce(self._longest)
            action, tokens = self._held.offer(advice, now)
        shown = (depth for depth in (NO_SPECULATION, *known) if depth.tokens == tokens)
        return action, next(shown, None)

    def _fresh_advice(self, evidence: FindingContext, known: Sequence[Depth]) -> tuple[Action, int | None]:
        """Return what to do, and the recommended tokens, by the window alone."""
        window, cost, policy = evidence.window, evidence.cost, evidence.policy.depth
        best = None if cost is None else recommended(window, cost, known, policy.tolerance)
        action = recommendation(
            window,
            verdict=evidence.verdict,
            length=evidence.length,
            cost=cost,
            depth=best,
            crossover=evidence.crossover,
            better_method=evidence.faster is not None,
            policy=policy,
        )
        return action, None if best is None or action is Action.COLLECT else best.tokens


def _bounds(window: Window, cost: Cost | None) -> Bounds:
    return Bounds(
        acceptance_ratio_estimate(window),
        acceptance_length_estimate(window),
        None if cost is None else speedup_estimate(window, cost),
    )


def _verdict(window: Window, bounds: Bounds, cost: Cost | None, policy: Policy) -> Verdict:
    return verdict(
        window,
        length=bounds.acceptance_length,
        speedup_value=None if cost is None else estimated_speedup_ratio(window, cost),
        speedup=bounds.speedup,
        cost=cost,
        policy=policy,
    )
