"""Learned state of an engine over hours, beyond its windows: step times and the acceptance baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from spec_decode_exporter.analysis.cost import CostSource, Curve
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.typical_costs import every_step_pays
from spec_decode_exporter.analysis.verdict import drafts_what_it_finds
from spec_decode_exporter.drops.drops import DecodeSteps, Drops, DropState, drafts_of
from spec_decode_exporter.drops.sums import Drop, DropStatus
from spec_decode_exporter.monitor.learned_baseline import LearnedBaseline
from spec_decode_exporter.monitor.step_times import PlainTimes, StepTimes, times_by_load
from spec_decode_exporter.scrape.page.engine_table import Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets, Sample
from spec_decode_exporter.window.history import History
from spec_decode_exporter.window.poll import Increment

COMPLETE_AFTER: Final = 60.0
"""Seconds of drafting after which all positions are known: some front ends create them one by one."""


_DROPS: Final = TypeAdapter(DropState)


class Drafter(NamedTuple):
    """Method and draft model; unknown values are empty."""

    method: str = ""
    draft_model: str = ""

    def is_another(self, other: Drafter) -> bool:
        """Return whether the two contradict each other; unknown values do not."""
        return any(own and its and own != its for own, its in zip(self, other, strict=True))

    def completed(self, other: Drafter) -> Drafter:
        """Return this, with unknown values from the other."""
        return Drafter(*(own or its for own, its in zip(self, other, strict=True)))


class LearnedState:
    """Learns from each increment of an engine; another drafter resets it."""

    def __init__(self, assumptions: Assumptions, baseline: LearnedBaseline | None = None) -> None:
        """Learn about an engine with these assumptions, and about its model in ``baseline``."""
        self._assumptions = assumptions
        self.baseline = baseline or LearnedBaseline()
        self._queue: Buckets | None = None
        self._speculates = False
        self._wall = 0.0
        self._step_times = StepTimes()
        self._drops = Drops(assumptions.policy.drops)
        self._beginnings = 0
        self._drafter = _drafter(assumptions.speculation)
        self._tokens = 0
        self._remembered: Mapping[str, Any] | None = None
        self._drafting = 0.0

    def assume(self, assumptions: Assumptions) -> bool:
        """Replace the assumptions; return whether they have another drafter, which resets the state.

        A drafter that becomes known or unknown is the same.
        """
        self._assumptions = assumptions
        self._drops.use(assumptions.policy.drops)
        before, drafter = self._drafter, _drafter(assumptions.speculation)
        is_another = drafter.is_another(before)
        if is_another:
            self._drafter = drafter
            self._start_again()
        else:
            self._drafter = drafter.completed(before)
        return is_another

    def observe(self, increment: Increment, sample: Sample, history: History) -> Sequence[Drop]:
        """Add an increment that ``history`` has already; return the drops that begin or end with it."""
        if history.window_resets != self._beginnings:
            self._beginnings = history.window_resets
            self._start_again()
        self._recall(history.tokens, increment)
        self._learn_steps(increment, sample, history)
        if increment.counters.drafts:
            self._tokens = max(self._tokens, history.tokens)
        return self._drops.observe(drafts_of(increment, history.wall), self._decode_steps(increment, history))

    def costs(self, arms: Sequence[StepTimes] = ()) -> tuple[Curve, ...]:
        """Return the measured cost by load.

        Args:
            arms: Step times of engines that serve the same model without speculation in an experiment.
        """
        times = self._step_times
        experiment = times_by_load([arm.plain for arm in arms], times.now)
        others = PlainTimes(experiment, CostSource.EXPERIMENT), self.baseline.plain_times(self._wall)
        return times.costs(others, self._method)

    @property
    def step_times(self) -> StepTimes:
        """Times of decode steps by load; the object changes with later increments."""
        return self._step_times

    def drops(self) -> DropStatus:
        """Return the status of drops."""
        return self._drops.status()

    def saved(self) -> dict[str, Any] | None:
        """Return the state to persist as plain values for JSON; None if nothing was learned.

        It contains its K and drafter, since the engine may be between two processes, or idle. A persisted
        state that was not restored yet is returned unchanged.
        """
        if self._remembered is not None:
            return dict(self._remembered)
        if not self._tokens:
            return None
        drops = _DROPS.dump_python(self._drops.state, mode="json", exclude_defaults=True)
        return {"tokens": self._tokens, **self._drafter._asdict(), "drops": drops}

    def remember(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of ``saved`` once the engine proves to draft with the same K and drafter."""
        self._remembered, self._drafting = saved, 0.0

    @property
    def _method(self) -> str:
        return self._assumptions.speculation.method

    def _learn_steps(self, increment: Increment, sample: Sample, history: History) -> None:
        """Learn step times, and the baseline while the engine does not speculate."""
        running, self._wall = sample.gauge(Gauge.RUNNING_REQUESTS), history.wall
        if history.is_undecided:
            return
        if history.speculates != self._speculates:
            # Plain steps of another process are those of the baseline.
            self._step_times.forget_plain()
            self._speculates, self._queue = history.speculates, None
        if history.knows_steps:
            plain = not history.speculates or not every_step_pays(self._method)
            self._step_times.observe(increment, increment.load, plain=plain)
        if not history.speculates:
            self.baseline.plain(increment, running or 0.0, history.wall, knows_steps=history.knows_steps)
            self._learn_queue(sample)
        elif increment.counters.drafts:
            self.baseline.drafting()

    def _decode_steps(self, increment: Increment, history: History) -> DecodeSteps | None:
        """Return the steps of an increment if a lack of drafts would be a drop of drafting.

        None if steps are unknown, if a schedule decides which steps have a draft, or if the method drafts in
        every step: such an engine stalls or is paused.
        """
        speculation = self._assumptions.speculation
        searches = drafts_what_it_finds(speculation.method)
        if not history.knows_steps or speculation.schedule or (speculation.method and not searches):
            return None
        return DecodeSteps(increment.counters.decode_steps, searches)

    def _learn_queue(self, sample: Sample) -> None:
        """Add the queue times since the last page with histograms to the baseline."""
        queue = sample.latencies.get(Latency.QUEUE) if sample.latencies else None
        if queue is not None:
            if self._queue is not None:
                self.baseline.queue(self._queue, queue)
            self._queue = queue

    def _recall(self, tokens: int, increment: Increment) -> None:
        """Restore the persisted state, or discard it, once K and drafter are known."""
        if self._remembered is None:
            return
        if increment.counters.drafts:
            self._drafting += increment.end - increment.begin
        known = self._remembered.get("tokens")
        may_show_more = isinstance(known, int) and tokens < known and self._drafting < COMPLETE_AFTER
        if may_show_more or not tokens:
            return
        remembered, self._remembered = self._remembered, None
        drafter = _remembered_drafter(remembered)
        if known != tokens or drafter.is_another(self._drafter):
            return
        try:
            self._drops.restore(_DROPS.validate_python(remembered.get("drops")))
        except ValidationError:
            return
        self._tokens = tokens
        self._drafter = self._drafter.completed(drafter)

    def _start_again(self) -> None:
        self._step_times.forget_drafting()
        self._drops.start_again()
        self._tokens = 0


def _drafter(speculation: Speculation) -> Drafter:
    return Drafter(speculation.method, speculation.draft_model)


def _remembered_drafter(remembered: Mapping[str, Any]) -> Drafter:
    return Drafter(*(str(remembered.get(field) or "") for field in Drafter._fields))
