"""Monitor of one engine: its history, evaluations and learned state, and the snapshot that readers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.drops.drop import DropChange, DropStatus
from spec_decode_exporter.analysis.evaluation import evaluate
from spec_decode_exporter.analysis.evaluation_inputs import Assumptions, EvaluationInputs
from spec_decode_exporter.analysis.evaluation_result import UNREACHABLE, Conclusion, Evaluation
from spec_decode_exporter.experiments.experiment import OFF
from spec_decode_exporter.experiments.faster_method import FasterMethod
from spec_decode_exporter.learned.plain_period import PlainPeriod
from spec_decode_exporter.analysis.speculation_state import STALL_SECONDS, WHOLE_WINDOW, State, plain_state
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.throttle import Throttle
from spec_decode_exporter.monitor.analysis_errors import AnalysisErrors
from spec_decode_exporter.monitor.confirmed_checks import ConfirmedChecks
from spec_decode_exporter.monitor.drops.traffic_mix import TypeTotals, no_types
from spec_decode_exporter.monitor.engine_events import (
    EngineChangeNotifier,
    drop_event,
    reset_events,
)
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.monitor.evaluation_pace import SHORTEST
from spec_decode_exporter.monitor.evaluator import Evaluator
from spec_decode_exporter.monitor.last_change import LastChange
from spec_decode_exporter.monitor.learned_baseline import LearnedBaseline
from spec_decode_exporter.monitor.learned_state import LearnedState
from spec_decode_exporter.monitor.step_recognition import recognise_steps
from spec_decode_exporter.monitor.step_times import StepTimes
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.page.sample import Sample
from spec_decode_exporter.window.engine_history import EngineHistory
from spec_decode_exporter.window.increments import Increment
from spec_decode_exporter.window.ledger import Window


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
        types: TypeTotals = no_types,
        *,
        evaluated_every: float = SHORTEST,
    ) -> None:
        """Monitor an engine.

        Args:
            windows: Lengths of the windows in seconds, ascending.
            assumptions: Knowledge of the engine besides its counters.
            phase: Position of its evaluations in every ``evaluated_every`` seconds, 0 to 1.
            baseline: Baseline of its model on its target, shared with the model's other engines.
            types: Returns the sums of its requests by type since the exporter's start.
            evaluated_every: Seconds between evaluations: see ``evaluate_every``.
        """
        self._assumptions = assumptions or Assumptions()
        self.history = EngineHistory(windows[-1])
        self._lengths = tuple(windows)
        self._evaluator = Evaluator(windows[-1])
        self._conclusion: Conclusion | None = None
        self._evaluation: Evaluation | None = None
        """The whole evaluation of the conclusion, if it was read."""
        self._evaluated_at = -inf
        self._cost: Cost | None = None
        self._present_windows: tuple[Window, ...] | None = None
        self._snapshots: dict[bool, EngineSnapshot] = {}
        """Snapshots of the newest poll, by whether the engine is gone."""
        self._throttle = Throttle(evaluated_every, phase)
        self._noted_at = -inf
        """Moment of the last evaluation whose changes were noted (monotonic)."""
        self._notifier = EngineChangeNotifier()
        self._errors = AnalysisErrors()
        self._learned = LearnedState(self._assumptions, baseline, types)
        self._baseline: Sequence[StepTimes] = ()
        self._faster: FasterMethod | None = None
        self._checks = ConfirmedChecks()
        self._wall = 0.0
        self._last_change = LastChange()
        self.assume(self._assumptions)

    def keep(self, windows: Sequence[float]) -> None:
        """Change the windows; longer ones fill up from now on."""
        self._lengths = tuple(windows)
        self.history.keep(windows[-1])
        self._evaluator.keep(windows[-1])
        self._invalidate()

    def assume(self, assumptions: Assumptions) -> None:
        """Replace the assumptions; the next evaluation uses them."""
        self._assumptions = assumptions
        if self._learned.assume(assumptions):  # no window may mix two methods
            self.history.reset_windows()
        self.history.configure_tokens(assumptions.speculation.tokens or 0)
        self._invalidate()

    def evaluate_every(self, seconds: float) -> None:
        """Evaluate without a reader if there was no evaluation for ``seconds``."""
        self._throttle.interval = seconds

    def observe(
        self, sample: Sample, moment: float, wall: float, interval: float, latency_interval: float
    ) -> list[Event]:
        """Take a poll's sample; intervals, in seconds, are those of polls and of polls with histograms."""
        history, read = self.history, self._reader_events()
        step = history.observe(sample, moment, wall, interval)
        if sample.latencies is not None:
            history.observe_latencies(sample, moment, max(interval, latency_interval))
            recognise_steps(history, self._lengths[-1])
        self._invalidate()
        self._conclusion = self._evaluation = None
        self._wall = wall
        changes = self._learn(step.increment, sample) if step.increment else ()
        self._last_change.note(changes, moment)
        return [
            *read,
            *reset_events(step),
            *self._checks.observe(step.counts, self.history),
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
        return [*self._reader_events(), *self._notifier.gone(is_bad=is_bad)]

    def evaluate(self) -> Evaluation:
        """Return the evaluation of the newest poll; compute it once per poll, in about half a millisecond.

        After an internal error the evaluation has only the state, until the next poll.
        """
        conclusion = self._concluded()
        if self._evaluation is None:
            whole = self._errors.attempt("evaluation", self.history.last_seen, conclusion.completed)
            self._evaluation = whole or Evaluation(self._plain_state())
            self._forget(conclusion)
        return self._evaluation

    def snapshot(self, now: float) -> EngineSnapshot:
        """Return the snapshot at ``now`` (monotonic); readers between two polls share one."""
        gone = self.history.is_gone(now)
        if gone not in self._snapshots:
            self._snapshots[gone] = self._taken(gone=gone)
        return self._snapshots[gone]

    def snapshot_over(self, seconds: float, now: float) -> EngineSnapshot:
        """Return a snapshot whose evaluation covers only the last ``seconds``, at most the longest window.

        The advice needs no more than that these seconds are whole. An engine that is gone is evaluated too.
        """
        history, gone = self.history, self.history.is_gone(now)
        recognise_steps(history, WHOLE_WINDOW * seconds)
        self._invalidate()
        lengths = (*(length for length in self._lengths if length < seconds), seconds)
        windows = tuple(map(history.window, lengths))
        evaluation = self._errors.attempt(
            "evaluation", history.last_seen, lambda: evaluate(windows, self._inputs())
        )
        evaluation = evaluation or Evaluation(self._plain_state())
        return replace(
            self.snapshot(now),
            windows=windows,
            latencies=history.latencies(),
            evaluation=replace(evaluation, state=State.UNREACHABLE) if gone else evaluation,
        )

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

    def use_experiments(self, baseline: Sequence[StepTimes], faster: FasterMethod | None) -> None:
        """Use the results of experiments in evaluations.

        Args:
            baseline: Step times of engines that serve the same model without speculation.
            faster: Another method that is faster.
        """
        if (bool(baseline), bool(faster)) != (bool(self._baseline), bool(self._faster)):
            self._evaluated_at = -inf  # the last evaluation used other results
            self._snapshots.clear()
        self._baseline, self._faster = baseline, faster

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

    def _invalidate(self) -> None:
        self._present_windows = None
        self._snapshots.clear()

    def _present(self) -> tuple[Window, ...]:
        if self._present_windows is None:
            self._present_windows = tuple(map(self.history.window, self._lengths))
        return self._present_windows

    def _taken(self, *, gone: bool) -> EngineSnapshot:
        history, drops, reference = self.history, self._drops(), self._assumptions.reference
        return EngineSnapshot(
            totals=history.totals(),
            broken=self._checks.broken,
            windows=() if gone else self._present(),
            latencies={} if gone else history.latencies(),
            reported=None if gone else history.sample,
            speculation=self._assumptions.speculation,
            tokens=history.tokens,
            evaluation=UNREACHABLE if gone else self.evaluate(),
            drops=DropStatus(drops=drops.drops) if gone else drops,
            reference_acceptance_ratio=None if reference is None else reference.at(history.tokens),
            baseline=self._period(),
        )

    def _concluded(self) -> Conclusion:
        """Return verdict and advice of the newest poll; compute them once per poll."""
        moment = self.history.last_seen
        if self._conclusion is None or self._evaluated_at < moment:
            conclude = self._evaluator.evaluate
            found = self._errors.attempt(
                "evaluation", moment, lambda: conclude(self._present(), self._inputs(), moment)
            )
            self._conclusion = found or Evaluation(self._plain_state())
            self._evaluation, self._evaluated_at, self._cost = None, moment, self._conclusion.cost
        return self._conclusion

    def _forget(self, conclusion: Conclusion) -> None:
        """Free what the windows keep for the figures of one evaluation."""
        its = conclusion.evaluated
        for window in (*self._present(), *([its.choice.window] if its else [])):
            window.forget()

    def _inputs(self) -> EvaluationInputs:
        history = self.history
        period = self._period() if history.speculates else None
        return EvaluationInputs(
            assumptions=self._assumptions,
            latencies=history.latencies(),
            broken=self._checks.broken,
            speculates=history.speculates,
            undecided=history.is_undecided,
            drafted_before=history.drafts_in_process > 0,
            costs=self._learned.costs(self._baseline),
            recent=None if self._present()[0][Counter.DRAFTS] else history.window(STALL_SECONDS),
            drops=self._drops(),
            faster=self._faster,
            request_baseline=period.request if period else None,
            change=self._last_change.within(history, self._lengths[-1], self._wall),
            changes=self._last_change.number + history.window_resets,
            wall=self._wall,
            data_parallel=history.data_parallel,
            last_drafts=self._evaluator.last_drafts,
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

    def _plain_state(self) -> State:
        """Return the state by the counters alone."""
        its = self.history
        return plain_state(self._present()[-1], speculates=its.speculates, undecided=its.is_undecided)

    def _reader_events(self) -> list[Event]:
        """Return the events of the last poll's evaluation if only a reader caused it, once."""
        conclusion, moment = self._conclusion, self.history.last_seen
        if conclusion is None or self._noted_at == moment:
            return []
        self._throttle.served(moment)
        return self._noted(conclusion, moment)

    def _evaluate_in_time(self, moment: float) -> list[Event]:
        """Conclude every few seconds, independent of readers, and return the events."""
        if not self._throttle.is_due(moment):
            return []
        self._throttle.done(moment)
        conclusion = self._concluded()
        events = self._noted(conclusion, moment)
        self._forget(conclusion)
        return events

    def _noted(self, conclusion: Conclusion, moment: float) -> list[Event]:
        """Note the evaluation of a poll, and return its events."""
        self._noted_at = moment
        # An empty window, as after a start, would only report an idle engine.
        if not self._present()[-1].polls or self._errors.failed("evaluation", moment):
            return []
        tokens, resets = self.history.tokens, self.history.window_resets
        return self._notifier.changes(conclusion, moment, tokens, resets, self.evaluate)
