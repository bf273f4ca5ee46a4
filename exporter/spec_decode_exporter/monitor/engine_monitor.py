"""Monitor of one engine: its history, evaluations and learned state, and the snapshot that readers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.evaluation import Evaluation, PlainEvaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, FasterMethod, Knowledge
from spec_decode_exporter.analysis.verdict import STALL_SECONDS, State
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.throttle import Throttle
from spec_decode_exporter.drops.drop import DropChange, DropStatus
from spec_decode_exporter.experiments.experiment import OFF
from spec_decode_exporter.findings.finding import Finding
from spec_decode_exporter.findings.findings import findings
from spec_decode_exporter.learned.plain_period import PlainPeriod
from spec_decode_exporter.monitor.analysis_errors import AnalysisErrors
from spec_decode_exporter.monitor.engine_events import (
    EngineChangeNotifier,
    check_event,
    drop_event,
    reset_events,
)
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.monitor.evaluation_pace import SHORTEST
from spec_decode_exporter.monitor.evaluator import Evaluator
from spec_decode_exporter.monitor.last_change import LastChange
from spec_decode_exporter.monitor.learned_baseline import LearnedBaseline
from spec_decode_exporter.monitor.learned_state import LearnedState
from spec_decode_exporter.monitor.step_times import StepTimes
from spec_decode_exporter.scrape.page.sample import Sample
from spec_decode_exporter.window.history import History, Window
from spec_decode_exporter.window.poll import Check, Increment, Poll


class EngineMonitor:
    """Takes the samples of one engine, evaluates them, and detects drops and broken identities.

    After an internal error in the evaluation or in learning, the counters and other engines stay correct.
    """

    def __init__(
        self,
        windows: Sequence[float],
        assumptions: Assumptions | None = None,
        phase: float = 0.0,
        baseline: LearnedBaseline | None = None,
        *,
        evaluated_every: float = SHORTEST,
    ) -> None:
        """Monitor an engine.

        Args:
            windows: Lengths of the windows in seconds, ascending.
            assumptions: Knowledge of the engine besides its counters.
            phase: Position of its evaluations in every ``evaluated_every`` seconds, 0 to 1.
            baseline: Baseline of its model on its target, shared with the model's other engines.
            evaluated_every: Seconds between evaluations: see ``evaluate_every``.
        """
        self._assumptions = assumptions or Assumptions()
        self.history = History(windows[-1])
        self.broken = frozenset[Check]()
        """Identities of counters that two successive polls broke: one page can be torn."""
        self._suspected = frozenset[Check]()
        self._lengths = tuple(windows)
        self._evaluator = Evaluator(windows[-1])
        self._evaluation: Evaluation | None = None
        """Evaluation of the newest poll, if there is one."""
        self._is_outdated = False
        """True if that evaluation used other windows, assumptions or results of experiments."""
        self._cost: Cost | None = None
        self._windows: tuple[Window, ...] | None = None
        self._snapshots: dict[bool, EngineSnapshot] = {}
        """Snapshots of the newest poll, by whether the engine is gone."""
        self._throttle = Throttle(evaluated_every, phase)
        self._noted_at = -inf
        """Moment of the last evaluation whose changes were noted (monotonic)."""
        self._notifier = EngineChangeNotifier()
        self._errors = AnalysisErrors()
        self._learned = LearnedState(self._assumptions, baseline)
        self._arms: Sequence[StepTimes] = ()
        self._faster: FasterMethod | None = None
        self._last_change = LastChange()
        self.assume(self._assumptions)

    def keep(self, windows: Sequence[float]) -> None:
        """Change the windows; longer ones fill up from now on."""
        self._lengths = tuple(windows)
        self.history.keep(windows[-1])
        self._evaluator.keep(windows[-1])
        self._outdate()

    def assume(self, assumptions: Assumptions) -> None:
        """Replace the assumptions; the next evaluation uses them."""
        self._assumptions = assumptions
        if self._learned.assume(assumptions):  # no window may mix two methods
            self.history.reset_windows()
        self.history.configure_tokens(assumptions.speculation.tokens or 0)
        self._outdate()

    def evaluate_every(self, seconds: float) -> None:
        """Evaluate without a reader if there was no evaluation for ``seconds``."""
        self._throttle.interval = seconds

    def observe(
        self, sample: Sample, moment: float, wall: float, interval: float, latency_interval: float
    ) -> list[Event]:
        """Take a poll's sample; intervals, in seconds, are those of polls and of polls with histograms."""
        history, read = self.history, self._reader_events()
        step = history.observe(sample, moment, wall, interval)
        history.observe_histograms(sample, moment, max(interval, latency_interval))
        self._outdate()
        self._evaluation = None
        changes = self._learn(step.increment, sample) if step.increment else ()
        self._last_change.note(changes, moment)
        return [
            *read,
            *reset_events(step),
            *self._check_events(step.poll),
            *(drop_event(change, wall) for change in changes),
            *self._evaluate_in_time(moment),
            *self._errors.events(),
        ]

    def gone_events(self, now: float, *, is_bad: bool) -> list[Event]:
        """Return the event of an engine that is gone at ``now`` (monotonic), once.

        The polls that show the engine again report its return.
        """
        if not self.history.is_gone(now):
            return []
        events = [*self._reader_events(), *self._notifier.gone(is_bad=is_bad)]
        # No reader needs them: the engine may be gone for an hour before it is evicted.
        self._evaluation = self._windows = None
        self._snapshots.pop(False, None)
        return events

    def evaluate(self) -> Evaluation:
        """Return the evaluation of the newest poll; compute it once per poll, in about half a millisecond.

        After an internal error the evaluation has only the state, until the next poll.
        """
        evaluation = self._evaluated()
        self._evaluation = self._settled(evaluation) or self._plain()
        return self._evaluation

    def snapshot(self, now: float) -> EngineSnapshot:
        """Return the snapshot at ``now`` (monotonic); readers between two polls share one."""
        gone = self.history.is_gone(now)
        if gone not in self._snapshots:
            unknown = Evaluation((), Knowledge(self._assumptions.speculation))
            self._snapshots[gone] = self._taken(unknown if gone else self.evaluate(), gone=gone)
        return self._snapshots[gone]

    def snapshot_over(self, seconds: float, now: float) -> EngineSnapshot:
        """Return a snapshot whose evaluation covers only the last ``seconds``, at most the longest window.

        The advice needs no more than that these seconds are whole. An engine that is gone is evaluated too.
        """
        lengths = (*(length for length in self._lengths if length < seconds), seconds)
        gone, windows = self.history.is_gone(now), self.history.windows(*lengths)
        evaluation = self._errors.attempt(
            "evaluation",
            self.history.last_seen,
            lambda: Evaluation(windows, self._knowledge(), self.history.latencies()),
        )
        settled = evaluation and self._settled(evaluation)
        snapshot = self._taken(settled or PlainEvaluation(windows, self._plain_knowledge()), gone=gone)
        if gone:
            _ = snapshot.findings  # by the state and the drops of its last poll
            snapshot.evaluation.state = State.UNREACHABLE
        return snapshot

    @property
    def cost(self) -> Cost | None:
        """Cost of speculation in the longest window, by the last evaluation."""
        return self._cost

    @property
    def method(self) -> str:
        """Method of speculation; ``off`` of an engine that does not speculate, empty if unknown."""
        history, known = self.history, self._assumptions.speculation.method
        # A search may decode long before its first draft: a configured method is not off.
        may_draft = history.is_undecided or (known and history.always_counts_drafts)
        return known if history.speculates or may_draft else OFF

    @property
    def step_times(self) -> StepTimes:
        """Times of decode steps by load; the object changes with later polls."""
        return self._learned.step_times

    def windows(self, now: float) -> tuple[Window, ...]:
        """Return the windows; empty if the engine is gone at ``now`` (monotonic)."""
        return () if self.history.is_gone(now) else self._present()

    def use_experiments(self, arms: Sequence[StepTimes], faster: FasterMethod | None) -> None:
        """Use the results of experiments in evaluations.

        Args:
            arms: Step times of engines that serve the same model without speculation.
            faster: Another method that is faster.
        """
        if (bool(arms), bool(faster)) != (bool(self._arms), bool(self._faster)):
            self._outdate()
        self._arms, self._faster = arms, faster

    @property
    def baseline(self) -> LearnedBaseline:
        """Baseline of the model on its target; the object changes with later polls."""
        return self._learned.baseline

    def learned(self) -> dict[str, Any] | None:
        """Return the state to persist as plain values for JSON; None if nothing was learned."""
        return self._errors.attempt("saving", self.history.last_seen, self._learned.saved)

    def remember(self, learned: Mapping[str, Any]) -> None:
        """Continue with the persisted state of an earlier process of the exporter."""
        self._learned.remember(learned)

    def _outdate(self) -> None:
        """Evaluate again for the next reader."""
        self._windows, self._is_outdated = None, True
        self._snapshots.clear()

    def _present(self) -> tuple[Window, ...]:
        if self._windows is None:
            self._windows = self.history.windows(*self._lengths)
        return self._windows

    def _taken(self, evaluation: Evaluation, *, gone: bool) -> EngineSnapshot:
        history, drops, reference = self.history, self._drops(), self._assumptions.reference
        return EngineSnapshot(
            totals=history.totals(),
            tokens=history.tokens,
            broken=self.broken,
            evaluation=evaluation,
            reported=None if gone else history.sample,
            drops=DropStatus(drops=drops.drops) if gone else drops,
            reference_acceptance_ratio=None if reference is None else reference.at(history.tokens),
            baseline=self._period(),
            find=partial(
                self._errors.attempt,
                "findings",
                history.last_seen,
                partial(_found, evaluation, self.broken, drops),
            ),
        )

    def _evaluated(self) -> Evaluation:
        """Return the evaluation of the newest poll, of which readers may need more: see ``_settled``."""
        if self._evaluation is None or self._is_outdated:
            self._cost, self._is_outdated = None, False
            found = self._errors.attempt("evaluation", self.history.last_seen, self._evaluation_now)
            self._evaluation = found or self._plain()
        return self._evaluation

    def _evaluation_now(self) -> Evaluation:
        """Evaluate the newest poll, as far as events and the cost need it."""
        history = self.history
        latencies, now = history.latencies(), history.last_seen
        evaluation = self._evaluator.evaluate(self._present(), self._knowledge(), latencies, now)
        _ = evaluation.state, evaluation.recommended
        self._cost = evaluation.cost
        return evaluation

    def _settled(self, evaluation: Evaluation) -> Evaluation | None:
        """Compute all that readers of an evaluation need; return None after an internal error."""

        def settled() -> Evaluation:
            evaluation.settle()
            return evaluation

        return self._errors.attempt("evaluation", self.history.last_seen, settled)

    def _plain(self) -> Evaluation:
        return PlainEvaluation(self._present(), self._plain_knowledge())

    def _plain_knowledge(self) -> Knowledge:
        its, assumed = self.history, self._assumptions
        return Knowledge(
            assumed.speculation,
            policy=assumed.policy,
            speculates=its.speculates,
            is_undecided=its.is_undecided,
            wall=its.wall,
        )

    def _knowledge(self) -> Knowledge:
        history, assumed, longest = self.history, self._assumptions, self._lengths[-1]
        age, wall = self._last_change.age(history.last_seen), history.wall
        period = self._period() if history.speculates else None
        is_changed, is_drafting = age < longest, bool(self._present()[0].total.drafts)
        return Knowledge(
            assumed.speculation,
            assumed.cost_model(self._learned.costs(self._arms)),
            assumed.policy,
            speculates=history.speculates,
            is_undecided=history.is_undecided,
            has_drafted=history.has_drafted,
            recent=None if is_drafting or longest <= STALL_SECONDS else history.windows(STALL_SECONDS)[0],
            since_change=history.windows(age)[0] if is_changed else None,
            change_wall=wall - age if is_changed else None,
            changes=self._last_change.number + history.window_resets,
            request_baseline=period.request if period else None,
            faster_method=self._faster,
            last_drafts=self._evaluator.last_drafts,
            data_parallel=history.data_parallel,
            wall=wall,
        )

    def _period(self) -> PlainPeriod | None:
        """Return the period of the baseline; None without one, and after an internal error."""
        last_seen, wall = self.history.last_seen, self.history.wall
        return self._errors.attempt("baseline", last_seen, lambda: self._learned.baseline.period(wall))

    def _learn(self, increment: Increment, sample: Sample) -> Sequence[DropChange]:
        """Learn from an increment; return the drops that begin or end with it."""
        changes = self._errors.attempt(
            "learning", increment.end, lambda: self._learned.observe(increment, sample, self.history)
        )
        return changes or ()

    def _drops(self) -> DropStatus:
        """Return the status of drops; without counts after an internal error, since 0 would be a reset."""
        seen = self.history.last_seen
        return self._errors.attempt("drops", seen, self._learned.drops) or DropStatus(drops={})

    def _check_events(self, poll: Poll) -> list[Event]:
        """Check the identities of a poll's counters; return the events of changes."""
        suspected = poll.broken_checks(self.history.tokens)
        confirmed = suspected & self._suspected
        if self.history.alternates:
            confirmed |= {Check.ONE_SERVER}
        changed = confirmed ^ self.broken
        self._suspected, self.broken = suspected, confirmed
        return [check_event(check, poll, broken=check in confirmed) for check in sorted(changed)]

    def _reader_events(self) -> list[Event]:
        """Return the events of the last poll's evaluation if only a reader caused it, once."""
        evaluation, moment = self._evaluation, self.history.last_seen
        if evaluation is None or self._noted_at == moment:
            return []
        self._throttle.served(moment)
        return self._noted(evaluation, moment)

    def _evaluate_in_time(self, moment: float) -> list[Event]:
        """Evaluate every few seconds, independent of readers, and return the events."""
        if not self._throttle.is_due(moment):
            return []
        self._throttle.done(moment)
        evaluation = self._evaluated()
        events = self._noted(evaluation, moment)
        evaluation.forget()
        return events

    def _noted(self, evaluation: Evaluation, moment: float) -> list[Event]:
        """Note the evaluation of a poll, and return its events."""
        self._noted_at = moment
        # An empty window, as after a start, would only report an idle engine.
        if not self._present()[-1].polls or self._errors.failed("evaluation", moment):
            return []
        tokens, resets = self.history.tokens, self.history.window_resets
        return self._notifier.changes(
            evaluation, moment, tokens, resets, lambda: self._taken(self.evaluate(), gone=False).findings
        )


def _found(evaluation: Evaluation, broken: frozenset[Check], drops: DropStatus) -> tuple[Finding, ...]:
    """Return the findings, and drop the columns of increments that they needed."""
    found = findings(evaluation, broken, drops)
    evaluation.forget()
    return found
