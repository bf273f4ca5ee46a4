"""Monitor of one engine: its history, what is learned, and its last evaluation, which all readers read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf
from typing import Final, TypeVar

from spec_decode_exporter.analysis.evaluation import Evaluation, FallbackEvaluation, Shown
from spec_decode_exporter.analysis.knowledge import Assumptions, Drafting, FasterMethod, Knowledge
from spec_decode_exporter.analysis.verdict import STALL_SECONDS, State
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.core.event import Event, Fields
from spec_decode_exporter.core.isolation import NO_ITEM, Isolation, Item
from spec_decode_exporter.costs.baseline import Baseline, BaselineSummary
from spec_decode_exporter.costs.cost import CostByLoad, CostRange
from spec_decode_exporter.costs.learned import Learned, LearnedState
from spec_decode_exporter.costs.methods import drafts_what_it_finds
from spec_decode_exporter.drops.detector import DecodeSteps
from spec_decode_exporter.drops.drops import drafts_of
from spec_decode_exporter.drops.sums import Drop, DropStatus
from spec_decode_exporter.experiments.experiment import OFF
from spec_decode_exporter.findings.findings import findings
from spec_decode_exporter.monitor.decision import DecisionMonitor
from spec_decode_exporter.monitor.draft_counters import DraftCounters
from spec_decode_exporter.monitor.events import drop_event
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.scrape.engines import Gauge
from spec_decode_exporter.scrape.sample import Sample
from spec_decode_exporter.window.engine_windows import History, Window, columns
from spec_decode_exporter.window.poll import Check, Increment, Poll, Step

T = TypeVar("T")
COSTS_SECONDS: Final = 30.0  # for which a learned cost, and the share of prefills in a long window, are used
MAX_PREEMPTIONS: Final = 0.05  # a request; decode time, which contains their absence, is not counted above


class EngineMonitor:
    """Takes the samples of one engine, and keeps its last evaluation: its owner causes them, at a pace.

    An internal error ends ``observe`` or ``evaluate``. What comes before stays correct: the counters first.
    """

    def __init__(
        self,
        windows: Sequence[float],
        assumptions: Assumptions | None = None,
        baseline: Baseline | None = None,
        remembered: LearnedState | None = None,
        *,
        labels: Item = NO_ITEM,
        phase: float = 0.0,
        errors: Isolation | None = None,
    ) -> None:
        """Monitor an engine by windows of these lengths in seconds, ascending.

        All engines of a model on a target share its ``baseline``; ``remembered`` is what an earlier process
        learned. ``phase`` is the position of evaluations in their interval, 0 to 1. ``errors`` isolates
        internal errors of the findings, which readers compute.
        """
        self.labels, self.phase, self._errors = labels, phase, errors or Isolation()
        self.history = History(windows[-1])
        self.counters = DraftCounters()
        self.learned = Learned(baseline)
        self.arms: Sequence[Learned] = ()
        self.faster: FasterMethod | None = None
        self.evaluated_at = -inf  # moment of the last evaluated poll (monotonic)
        self.is_urgent = False  # True if a change since the last evaluation must be shown at once
        self._last: EngineSnapshot | None = None
        self._broken, self._suspected = frozenset[Check](), frozenset[Check]()
        self._tokens = self._resets = 0
        self._changed_at = self._changed_before = -inf
        """Moments of the last two detected changes of acceptance or drafting: verdicts begin at the last."""
        self._costs: tuple[CostByLoad, ...] = ()
        self._latency_baseline: BaselineSummary | None = None
        self._cost_basis = False, 0
        self._last_drafts: tuple[Window, float] | None = None
        """Newest drafts with a verdict, of a schedule that pauses."""
        self._decisions = DecisionMonitor()
        self.use(windows, assumptions or Assumptions())
        if remembered is not None:
            self.learned.remember(remembered)

    def use(self, windows: Sequence[float], assumptions: Assumptions) -> None:
        """Use other windows and assumptions; longer windows fill up from now on."""
        self._lengths, self._assumptions = tuple(windows), assumptions
        self.history.keep(windows[-1])
        if self.learned.assume(assumptions.speculation.drafting_method, assumptions.policy.drops):
            self.history.reset_windows()  # none may mix two methods
        self.history.configure_tokens(assumptions.speculation.tokens or 0)
        self._costs_at, self._prefill_shares = -inf, dict[float, float]()
        self.is_urgent = True
        if self._decisions.state is State.UNREACHABLE:
            self._last = self._absent()

    def use_experiments(self, arms: Sequence[Learned], faster: FasterMethod | None) -> None:
        """Use the engines that serve the model without speculation in an experiment, and a faster method."""
        self.arms, self.faster = arms, faster

    @property
    def snapshot(self) -> EngineSnapshot | None:
        """State at the last evaluation, with the sums until the newest poll; None before the first."""
        return None if self._last is None else replace(self._last, totals=self.history.totals())

    @property
    def cost(self) -> CostRange | None:
        """Cost of speculation in the longest window, by the last evaluation."""
        return None if self._last is None else self._last.evaluation.longest.cost

    @property
    def method(self) -> str:
        """Method of speculation; ``off`` of an engine that does not speculate, empty if unknown."""
        known = self._assumptions.speculation.method
        # A search may decode long before its first draft: a configured method is not off.
        may_draft = known and self._assumptions.front_end == "rust"
        return OFF if self.counters.drafting is Drafting.OFF and not may_draft else known

    def windows(self, now: float) -> tuple[Window, ...]:
        """Return the windows; empty if the engine is gone at ``now`` (monotonic)."""
        return () if self.history.is_gone(now) else self.history.windows(*self._lengths)

    def observe(
        self, sample: Sample, moment: float, wall: float, interval: float, latency_interval: float
    ) -> tuple[Event, ...]:
        """Take a poll's sample, return its events; intervals are of polls, and of polls with histograms."""
        history, assumed, before = self.history, self._assumptions, self.counters.drafting
        sample = self.counters.complete(sample, assumed.speculation, assumed.front_end)
        if self.counters.begins_again:
            history.begin_again()
        step = history.observe(sample, moment, wall, interval)
        history.observe_histograms(sample, moment, max(interval, latency_interval))
        if step.reset and assumed.speculation.has_served_tokens:
            history.configure_tokens(0)  # it is that of the process before
        has_polls = self._last is not None and self._last.evaluation.longest.window.polls > 0
        is_first = step.increment is not None and not has_polls
        self.is_urgent |= is_first or self.counters.drafting is not before or step.reset is not None
        counted = (*self._reset_events(step), *self._check_events(step.poll))
        return (*counted, *self._learn(step.increment, sample)) if step.increment else counted

    def evaluate(self, *, in_full: bool = True) -> tuple[Event, ...]:
        """Evaluate the newest poll, and return what changed since the last evaluation.

        If it raises, the snapshot has the state and the figures by the counters alone. ``in_full`` computes
        all that a scrape reads; otherwise the first reader does, which takes a scrape of many too long.
        """
        windows = self.history.windows(*self._lengths)
        self.evaluated_at, self.is_urgent = self.history.last_seen, False
        try:
            drops = self.learned.drops.status()
            evaluation = self._evaluated(windows, drops)
            if in_full:
                evaluation.compute_for_readers()
            # Later than its last draft, the windows still hold drafts that these polls did not profit from.
            recent = windows[0].total
            is_overloaded = (recent.preemptions or 0) > MAX_PREEMPTIONS * (recent.first_tokens or 0)
            is_drafting = bool(recent.drafts) and not is_overloaded
            self._count_time(evaluation.verdict_window if is_drafting else None)
            self._last = self._snapshot(evaluation, drops)
        except Exception:
            self._count_time(None)
            self._last = self._plain(windows)
            raise
        if not windows[-1].polls:  # an empty window, as after a start, would only report an idle engine
            return ()
        return tuple(self._decisions.events(evaluation, self._last))

    def gone(self, now: float, *, is_bad: bool) -> tuple[Event, ...]:
        """Free the evaluation of an engine that is gone at ``now`` (monotonic); return the event, once."""
        if self._decisions.state is State.UNREACHABLE or not self.history.is_gone(now):
            return ()
        self._last, self.is_urgent = self._absent(), True
        return tuple(self._decisions.gone(is_bad=is_bad))

    def evaluation_over(self, seconds: float, *, is_gone: bool = False) -> Evaluation:
        """Return the evaluation of the last ``seconds``, at most: the advice needs no longer ones."""
        lengths = (*(length for length in self._lengths if length < seconds), seconds)
        windows, latencies = self.history.windows(*lengths), self.history.latencies()
        return Evaluation(windows, replace(self._knowledge(windows), is_gone=is_gone), latencies)

    def snapshot_over(self, seconds: float, now: float) -> EngineSnapshot:
        """Return a snapshot with that evaluation, of an engine that is gone at ``now`` (monotonic) too."""
        evaluation = self.evaluation_over(seconds)
        evaluation.compute_for_readers()
        snapshot = self._snapshot(evaluation, self.learned.drops.status())
        if not self.history.is_gone(now):
            return snapshot
        found = snapshot.findings  # by the state and the drops of its last poll
        gone, drops = self.evaluation_over(seconds, is_gone=True), DropStatus(total=snapshot.drops.total)
        return replace(snapshot, evaluation=gone, compute_findings=lambda: found, reported=None, drops=drops)

    # Observed

    def _reset_events(self, step: Step) -> Iterator[Event]:
        """Yield a reset of the server's counters, and another K.

        More visible positions alone, which reset no window, are no event, nor is another method.
        """
        if step.reset is not None:
            self._decisions.reset()
            is_whole = step.increment is not None
            yield Event("engine_reset", {"cause": str(step.reset), "counted_since_restart": is_whole})
        before, tokens = self._tokens, self.history.tokens
        self._tokens = tokens or before
        if self.history.window_resets != self._resets:
            self._resets, self._tokens, self.is_urgent = self.history.window_resets, tokens, True
            self._last_drafts = None
            self._decisions.reset(forget_cost=True)
            if tokens != before:
                yield Event("configured_tokens_changed", {"configured_tokens": tokens, "before": before})

    def _check_events(self, poll: Poll) -> Iterator[Event]:
        """Yield the identities of the counters that break or hold again; two successive polls confirm one.

        One page can be torn.
        """
        suspected = poll.broken_checks(self.history.tokens)
        confirmed = suspected & self._suspected
        if self.history.alternates:
            confirmed |= {Check.ONE_SERVER}
        changed, self._suspected, self._broken = confirmed ^ self._broken, suspected, confirmed
        self.is_urgent |= bool(changed)
        for check in sorted(changed):
            fields: Fields = {
                "check": str(check),
                "drafts": poll.counters.drafts,
                "draft_tokens": poll.counters.draft_tokens,
                "accepted_tokens": poll.counters.accepted_tokens,
                "accepted_by_position": list(poll.positions),
            }
            yield Event("check_broken" if check in confirmed else "check_holds_again", fields)

    def _learn(self, increment: Increment, sample: Sample) -> Iterator[Event]:
        """Learn from an increment; yield the drops that begin or end with it."""
        self.learned.observe(increment, sample, self.history, speculates=self.counters.drafting.speculates)
        drops = self._observe_drops(increment)
        ages = [drop.age for drop in drops if drop.age is not None]
        if ages:  # a reset baseline has no moment
            changed_at = increment.end - min(ages)
            # A drop and its end show their decisions at once; traffic that alternates resets nothing.
            if changed_at - self._changed_before > self._lengths[-1]:
                self._decisions.reset()
            self._note_change(changed_at)
        self.is_urgent |= bool(drops)
        for drop in drops:
            yield drop_event(drop, self.history.wall)

    def _observe_drops(self, increment: Increment) -> tuple[Drop, ...]:
        """Add an increment to the detectors of drops; without steps no lack of drafts is one."""
        speculation, history = self._assumptions.speculation, self.history
        searches = drafts_what_it_finds(speculation.method)
        drafts_always = bool(speculation.method) and not searches
        its = increment.counters
        steps = DecodeSteps(its.decode_steps, searches, drafts_always, its.first_tokens)
        knows = history.knows_steps and not speculation.schedule  # else it may be a pause
        load = increment.load if speculation.chooses_tokens or history.varies_tokens else None
        return self.learned.drops.observe(drafts_of(increment), steps if knows else None, load)

    def _note_change(self, moment: float) -> None:
        """Note a detected change of acceptance or drafting, which began at a moment (monotonic)."""
        self._last_drafts = None
        if moment > self._changed_at:
            self._changed_before, self._changed_at = self._changed_at, moment

    # Evaluated

    def _evaluated(self, windows: Sequence[Window], drops: DropStatus) -> Evaluation:
        """Evaluate windows as far as the decision and its events need them."""
        shown, latencies = partial(self._shown, drops=drops), self.history.latencies()
        evaluation = Evaluation(windows, self._knowledge(windows), latencies, shown)
        known, its = evaluation.known, evaluation.verdict_window.window
        if not known.speculation.schedule.pauses:
            self._last_drafts = None
        elif evaluation.is_advisable and columns(its.increments, "drafts")[0][-1]:
            self._last_drafts = its, known.wall
        return evaluation

    def _shown(self, evaluation: Evaluation, drops: DropStatus) -> Shown:
        """Return the decision and the setting to show, after those of an evaluation are offered."""
        now = self.history.last_seen
        if self._decisions.state is State.STALLED and evaluation.state is not State.STALLED:
            self._note_change(now)  # from now on a verdict is about the time since
            self.is_urgent = True
        basis = (self._assumptions, self._resets)
        return self._decisions.show(evaluation, now, basis, is_dropped=bool(drops.live))

    def _count_time(self, window: WindowEvaluation | None) -> None:
        """Count the decode time of the polls since the last evaluation, at the speed-up of a window."""
        decoded = self.history.totals().counters.decode_nanoseconds
        speedup, cost = (window.speedup_bounds, window.cost) if window else (None, None)
        self.learned.saved.add(decoded, speedup, self.history.wall, cost.source if cost else None)

    def _knowledge(self, windows: Sequence[Window]) -> Knowledge:
        history, assumed, longest = self.history, self._known, self._lengths[-1]
        age, wall = history.last_seen - self._changed_at, history.wall
        drafts = self.counters.drafting is Drafting.DRAFTS
        is_changed, is_drafting = age < longest, bool(windows[0].total.drafts)
        return Knowledge(
            assumed.speculation,
            assumed.cost_model(self._learned_costs()),
            assumed.policy,
            drafting=self.counters.drafting,
            has_drafted=history.has_drafted,
            recent=None if is_drafting or longest <= STALL_SECONDS else history.window(STALL_SECONDS),
            since_change=history.window(age) if is_changed else None,
            change_wall=wall - age if is_changed else None,
            baseline=self.learned.baseline.summary(wall),
            faster_method=self.faster,
            last_drafts=self._last_drafts,
            latency_baseline=self._latency_baseline if drafts else None,
            prefill_shares=self._prefill_shares,
            wall=wall,
            assumed=assumed,
        )

    @property
    def _known(self) -> Assumptions:
        """Assumptions, with what the counters show: K changes, or T are the tokens that were verified."""
        assumed, sample = self._assumptions, self.history.sample
        speculation = assumed.speculation
        is_adaptive = speculation.is_adaptive and not (sample and sample.counts_verified)
        varies_tokens = speculation.varies_tokens or self.history.varies_tokens
        if (is_adaptive, varies_tokens) == (speculation.is_adaptive, speculation.varies_tokens):
            return assumed
        shown = replace(speculation, is_adaptive=is_adaptive, varies_tokens=varies_tokens)
        return replace(assumed, speculation=shown)

    def _learned_costs(self) -> tuple[CostByLoad, ...]:
        """Return the learned cost by load: once known, it is refreshed at most every ``COSTS_SECONDS``."""
        now, basis = self.history.last_seen, (bool(self.arms), self.history.window_resets)
        is_due = now - self._costs_at >= COSTS_SECONDS or basis != self._cost_basis
        if is_due:
            self._costs_at, self._cost_basis, self._prefill_shares = now, basis, {}
        if is_due or not self._costs:
            self._costs = self.learned.costs(self.arms)
        if is_due or self._latency_baseline is None:
            self._latency_baseline = self.learned.latency_baseline(self.arms)
        return self._costs

    # Snapshots

    def _absent(self) -> EngineSnapshot:
        """Return the snapshot of an engine that is gone: its counters alone."""
        known = Knowledge(self._assumptions.speculation, assumed=self._assumptions)
        return self._snapshot(Evaluation((), known), DropStatus(total=self.learned.drops.status().total))

    def _plain(self, windows: Sequence[Window]) -> EngineSnapshot:
        """Return the snapshot after an internal error; without counts of drops, since 0 would be a reset."""
        assumed, drafting, wall = self._known, self.counters.drafting, self.history.wall
        known = Knowledge(
            assumed.speculation, policy=assumed.policy, drafting=drafting, wall=wall, assumed=assumed
        )
        return self._snapshot(FallbackEvaluation(windows, known), DropStatus(total={}))

    def _snapshot(self, evaluation: Evaluation, drops: DropStatus) -> EngineSnapshot:
        history, saved, sample = self.history, self.learned.saved, self.history.sample
        length = sample.gauge(Gauge.REPORTED_ACCEPTANCE_LENGTH) if sample else None
        find = partial(findings, evaluation, self._broken, drops, length)
        attempt = partial(self._errors.attempt, "findings", self.labels, find)
        return EngineSnapshot(
            totals=history.totals(),
            tokens=history.tokens,
            broken=self._broken,
            evaluation=evaluation,
            reported=history.sample if evaluation.windows else None,
            drops=drops,
            decode_time=saved.total,
            today=saved.today,
            compute_findings=cache(partial(_found, evaluation, attempt)),
            compute_token_use=partial(self.learned.used.sums, history.wall),
        )


def _found(evaluation: Evaluation, find: Callable[[], T]) -> T:
    """Return the findings, and drop their columns. No method: the snapshot must not keep its monitor."""
    found = find()
    evaluation.release_columns()
    return found
