"""One engine, watched: its history, and what must be remembered to judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import inf
from typing import Any

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.drops.drop import DropChange, DropStatus
from spec_decode_exporter.analysis.evaluation import (
    UNREACHABLE,
    Assumptions,
    Evaluation,
    EvaluationInputs,
    Evaluator,
)
from spec_decode_exporter.analysis.experiments.faster_method import OFF, FasterMethod
from spec_decode_exporter.analysis.integrity import Check, broken_checks
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import WHOLE_WINDOW, State, is_whole
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.figures.latency import counts_tokens_as_steps
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.monitor.containment import Containment
from spec_decode_exporter.monitor.engine_events import (
    EngineChangeNotifier,
    check_event,
    drop_event,
    reset_events,
)
from spec_decode_exporter.monitor.learned_state import LearnedState
from spec_decode_exporter.monitor.step_times import StepTimes
from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample
from spec_decode_exporter.scrape.poll.poll_schedule import Throttle
from spec_decode_exporter.window.engine_history import EngineHistory, EngineTotals
from spec_decode_exporter.window.increments import Counts, Increment
from spec_decode_exporter.window.ledger import Window

EVALUATED_EVERY = 5.0
"""Seconds from one judgement to the next, where nobody asks in between."""


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """What is to be said of one engine at one moment. Later polls do not change it."""

    totals: EngineTotals
    broken: frozenset[Check]
    windows: tuple[Window, ...]
    """Ascending by length; empty where there was no successful poll for too long."""
    latencies: dict[Latency, Buckets]
    """The histograms over the longest window."""
    reported: Sample | None
    """The newest sample, where what it reports is still of now."""
    speculation: Speculation
    tokens: int
    """K; 0 where it is not known."""
    evaluation: Evaluation
    drops: DropStatus
    reference_acceptance_ratio: float | None
    """The acceptance rate that it is held against, at this K."""
    figures: tuple[WindowFigures, ...] = field(init=False, repr=False, compare=False)
    """The figures of each window, computed once for all readers."""

    def __post_init__(self) -> None:
        parts = zip_longest(self.windows, self.evaluation.costs, self.evaluation.bounds)
        figures = (
            WindowFigures(window, cost, bounds) for window, cost, bounds in parts if window is not None
        )
        object.__setattr__(self, "figures", tuple(figures))


class EngineMonitor:
    """Feeds an engine's history, judges it now and then, and watches for drops and broken identities.

    A defect of ours in the judgement or in what is learnt leaves everything else as it is: what was counted
    is shown, and so are the other engines.
    """

    def __init__(
        self, windows: Sequence[float], assumptions: Assumptions | None = None, phase: float = 0.0
    ) -> None:
        """Watch over windows of the given lengths in seconds, ascending; see ``EngineHistory``.

        ``phase``, 0 to 1, says where in every ``JUDGED_EVERY`` seconds it is judged.
        """
        assumptions = assumptions or Assumptions()
        self.history = EngineHistory(windows[-1])
        self._windows = tuple(windows)
        self._evaluator = Evaluator(assumptions, longest=windows[-1])
        self._evaluation = UNREACHABLE
        self._evaluated_at = -inf
        self._telling = Throttle(EVALUATED_EVERY, phase)
        self._notifier = EngineChangeNotifier()
        self._containment = Containment()
        self._experience = LearnedState(assumptions)
        self._baseline: Sequence[StepTimes] = ()
        self._faster: FasterMethod | None = None
        self._suspected: frozenset[Check] = frozenset()
        self._broken: frozenset[Check] = frozenset()
        self.assume(assumptions)

    def keep(self, windows: Sequence[float]) -> None:
        """Change the windows; longer ones fill up from now on."""
        self._windows = tuple(windows)
        self.history.keep(windows[-1])
        self._evaluator.keep(windows[-1])

    def assume(self, assumptions: Assumptions) -> None:
        """Judge by other assumptions from now on."""
        self._evaluator.assumptions = assumptions
        if self._experience.assume(assumptions):  # no window may mix what two methods did
            self.history.begin_again()
        self.history.configure_tokens(assumptions.speculation.tokens or 0)

    def observe(
        self, sample: Sample, moment: float, wall: float, interval: float, latency_interval: float
    ) -> list[Event]:
        """Take a poll's sample; intervals, in seconds, are those of polls and of polls with histograms."""
        history = self.history
        taken = history.observe(sample, moment, wall, interval)
        if sample.latencies is not None:
            history.observe_latencies(sample, moment, max(interval, latency_interval))
            self._recognise_steps(self._windows[-1])
        changes = self._experienced(taken.increment, sample) if taken.increment else ()
        return [
            *reset_events(taken),
            *self._check(taken.counts),
            *map(drop_event, changes),
            *self._evaluate_in_time(moment),
            *self._containment.events(),
        ]

    def gone(self, now: float, *, is_bad: bool) -> list[Event]:
        """Return what is to be told of an engine that was not seen for too long at ``now`` (monotonic).

        That it is back is told by the polls that show it.
        """
        return self._notifier.tell_gone(is_bad=is_bad) if self.history.is_gone(now) else []

    def evaluate(self, most_behind: float = 0.0) -> Evaluation:
        """Judge by the newest poll; it takes a millisecond, and nothing if that was judged already.

        Nothing either if what was judged is at most ``most_behind`` seconds older. If judging fails, the
        judgement says what is plain without one, until there is another poll to judge by.
        """
        moment = self.history.last_seen
        if self._evaluated_at < moment - most_behind:
            evaluation = self._containment.attempt(
                "judgement", moment, lambda: self._evaluator.evaluate(self._facts(self._present()), moment)
            )
            self._evaluation = evaluation or Evaluation(self._plain_state())
            self._evaluated_at = moment
        return self._evaluation

    def findings(self, now: float, most_behind: float = 0.0) -> EngineSnapshot:
        """Sum up the engine at ``now`` (monotonic), judged as ``judge`` does it."""
        history = self.history
        gone, drops = history.is_gone(now), self._drops()
        return EngineSnapshot(
            totals=history.totals(),
            broken=self._broken,
            windows=self.windows(now),
            latencies={} if gone else history.latencies(),
            reported=None if gone else history.sample,
            speculation=self._evaluator.assumptions.speculation,
            tokens=history.tokens,
            evaluation=UNREACHABLE if gone else self.evaluate(most_behind),
            drops=DropStatus(drops=drops.drops) if gone else drops,
            reference_acceptance_ratio=self._reference(),
        )

    def findings_over(self, seconds: float, now: float) -> EngineSnapshot:
        """Sum up the engine at ``now`` (monotonic), judged by its last ``seconds`` and nothing before.

        They are a window of their own, no longer than the longest one; advice takes no more than that it is
        whole, since nothing was advised before. An engine that is gone is judged by what it showed.
        """
        history, gone = self.history, self.history.is_gone(now)
        self._recognise_steps(WHOLE_WINDOW * seconds)
        lengths = (*(length for length in self._windows if length < seconds), seconds)
        windows = tuple(map(history.window, lengths))
        evaluation = self._containment.attempt(
            "judgement",
            history.last_seen,
            lambda: Evaluator(self._evaluator.assumptions, seconds).evaluate(
                self._facts(windows), history.last_seen
            ),
        )
        evaluation = evaluation or Evaluation(self._plain_state())
        return replace(
            self.findings(now),
            windows=windows,
            latencies=history.latencies(),
            evaluation=replace(evaluation, state=State.UNREACHABLE) if gone else evaluation,
        )

    @property
    def cost(self) -> Cost | None:
        """What speculation cost in the longest window, as it was judged last."""
        return self._evaluation.cost

    @property
    def is_cost_sure(self) -> bool:
        """Whether that is known well enough, and for the present load, to call something harmful by it."""
        return self._evaluation.is_cost_sure

    @property
    def method(self) -> str:
        """The method of speculation; ``off`` of an engine that does not speculate, empty where unknown."""
        history, known = self.history, self._evaluator.assumptions.speculation.method
        # A server that creates its counters with the first draft may be about to do what it is configured to.
        return known if history.speculates or (known and history.late_steps) else OFF

    @property
    def step_times(self) -> StepTimes:
        """How long decode steps took, by load; it goes on to change."""
        return self._experience.step_times

    def windows(self, now: float) -> tuple[Window, ...]:
        """Return the windows; none if the engine was not seen for too long at ``now`` (monotonic)."""
        return () if self.history.is_gone(now) else self._present()

    def compare(self, baseline: Sequence[StepTimes], faster: FasterMethod | None) -> None:
        """Judge from now on by what experiments show.

        ``baseline`` are the steps of engines that serve the same model without speculation, ``rival`` is
        another method that is faster.
        """
        if (bool(baseline), bool(faster)) != (bool(self._baseline), bool(self._faster)):
            self._evaluated_at = -inf  # what was judged with them no longer holds without, nor the other way
        self._baseline, self._faster = baseline, faster

    def learned(self) -> dict[str, Any] | None:
        """Return what is worth keeping over a restart of the exporter, in a form that JSON can hold.

        None where there is nothing new: then what was kept before is still the best that is known.
        """
        return self._containment.attempt("saving", self.history.last_seen, self._experience.saved)

    def remember(self, learned: Mapping[str, Any]) -> None:
        """Go on with what ``learnt`` returned before a restart of the exporter."""
        self._experience.remember(learned)

    def _recognise_steps(self, seconds: float) -> None:
        """Judge what this process observes, once a whole window holds nothing of an earlier one.

        A server that publishes its steps late is not judged: what it holds back looks the same.
        """
        history = self.history
        if history.counts_tokens_as_steps or history.late_steps or history.process_seconds < seconds:
            return
        window = history.window(seconds)
        if is_whole(window):
            history.counts_tokens_as_steps = counts_tokens_as_steps(window)

    def _present(self) -> tuple[Window, ...]:
        return tuple(map(self.history.window, self._windows))

    def _facts(self, windows: tuple[Window, ...]) -> EvaluationInputs:
        history = self.history
        return EvaluationInputs(
            windows=windows,
            latencies=history.latencies(),
            broken=self._broken,
            speculates=history.speculates,
            drafted_before=history.drafts_in_process > 0,
            costs=self._experience.costs(self._baseline),
            drops=self._drops(),
            faster=self._faster,
        )

    def _experienced(self, increment: Increment, sample: Sample) -> Sequence[DropChange]:
        """Learn from an increment; return the drops that begin or end with it."""
        changes = self._containment.attempt(
            "learning", increment.end, lambda: self._experience.observe(increment, sample, self.history)
        )
        return changes or ()

    def _reference(self) -> float | None:
        reference = self._evaluator.assumptions.reference
        return None if reference is None else reference.at(self.history.tokens)

    def _drops(self) -> DropStatus:
        """Return how acceptance stands; where that fails not even what was counted: 0 would be a reset."""
        drops = self._containment.attempt("drops", self.history.last_seen, self._experience.drops)
        return drops or DropStatus(drops={})

    def _plain_state(self) -> State:
        """Return what the counters alone say: whether it speculates, and drafts; not that it should."""
        history = self.history
        if not history.speculates:
            return State.DISABLED
        return State.ACTIVE if history.window(self._windows[-1])[Counter.DRAFTS] else State.IDLE

    def _evaluate_in_time(self, moment: float) -> list[Event]:
        """Judge every few seconds, however often others ask, and return what is new in it."""
        if not self._telling.is_due(moment):
            return []
        self._telling.done(moment)
        evaluation = self.evaluate()
        history = self.history
        # An empty window, as it is after a start, would only tell that the engine is idle.
        empty = not history.window(self._windows[-1]).polls
        if empty or self._containment.failed("judgement", moment):
            return []
        return self._notifier.tell(evaluation, moment, history.tokens, history.beginnings)

    def _check(self, counts: Counts) -> list[Event]:
        """Find what is broken: what two successive polls say is, since a single page can be torn."""
        found = broken_checks(counts, self.history.tokens)
        confirmed = found & self._suspected
        if self.history.alternates:
            confirmed |= {Check.ONE_SERVER}
        changed = confirmed ^ self._broken
        self._suspected, self._broken = found, confirmed
        return [check_event(check, counts, broken=check in confirmed) for check in sorted(changed)]
