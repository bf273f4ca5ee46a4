"""What is learnt of an engine over hours, beyond its windows: what drafting costs, and what is usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from spec_decode_exporter.analysis.cost import fixed_tokens
from spec_decode_exporter.analysis.drops.drop import DropChange, DropStatus
from spec_decode_exporter.analysis.evaluation import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.typical_costs import undrafted_steps_are_plain
from spec_decode_exporter.config.cost_settings import LoadCost
from spec_decode_exporter.monitor.drops.drop_detector import DropDetector
from spec_decode_exporter.monitor.step_times import StepTimes
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge
from spec_decode_exporter.scrape.page.sample import Sample
from spec_decode_exporter.window.engine_history import EngineHistory
from spec_decode_exporter.window.increments import Increment

SURE_AFTER: Final = 60.0
"""Seconds of drafting after which an engine has shown all its positions: some front ends create them with
the first draft, or one by one."""


class Drafter(NamedTuple):
    """What drafts, as far as it is known; unknown is empty."""

    method: str = ""
    draft_model: str = ""

    def is_another(self, other: Drafter) -> bool:
        """Return whether the two contradict each other: not knowing is no contradiction."""
        return any(mine and its and mine != its for mine, its in zip(self, other, strict=True))

    def completed(self, other: Drafter) -> Drafter:
        """Return this, with what only the other knows."""
        return Drafter(*(mine or its for mine, its in zip(self, other, strict=True)))


class LearnedState:
    """Learns from each increment of an engine; starts anew with another drafter."""

    def __init__(self, assumptions: Assumptions) -> None:
        """Learn about an engine of which this is known."""
        self._assumptions = assumptions
        self._step_times = StepTimes()
        self._drops = DropDetector(assumptions.policy.drops)
        self._beginnings = 0
        self._drafter = _drafter(assumptions.speculation)
        self._tokens = 0
        self._remembered: Mapping[str, Any] | None = None
        self._drafting = 0.0

    def assume(self, assumptions: Assumptions) -> bool:
        """Go on with other knowledge; return whether it is of another drafter.

        Then what was learnt of the old one says nothing. That the drafter is not known any more, or is known
        now, makes it no other one.
        """
        self._assumptions = assumptions
        self._drops.policy = assumptions.policy.drops
        before, drafter = self._drafter, _drafter(assumptions.speculation)
        is_another = drafter.is_another(before)
        if is_another:
            self._drafter = drafter
            self._start_again()
        else:
            self._drafter = drafter.completed(before)
        return is_another

    def observe(self, increment: Increment, sample: Sample, history: EngineHistory) -> Sequence[DropChange]:
        """Take an increment that ``history`` has already; return the drops that begin or end with it."""
        if history.beginnings != self._beginnings:
            self._beginnings = history.beginnings
            self._start_again()
        self._recall(history.tokens, increment)
        if history.knows_steps:
            plain = not history.speculates or undrafted_steps_are_plain(self._method)
            self._step_times.observe(increment, sample.gauge(Gauge.RUNNING_REQUESTS), plain=plain)
        counters = increment.counters
        if counters[Counter.DRAFTS]:
            self._tokens = max(self._tokens, history.tokens)
        return self._drops.observe(
            increment.begin,
            increment.end,
            counters[Counter.DRAFTS],
            counters[Counter.ACCEPTED_TOKENS],
            increment.positions,
        )

    def costs(self, baseline: Sequence[StepTimes] = ()) -> tuple[LoadCost, ...]:
        """Return what a draft token was seen to cost, by load; ``baseline`` as in ``StepTimes.costs``."""
        return self._step_times.costs(fixed_tokens(self._method), baseline)

    @property
    def step_times(self) -> StepTimes:
        """How long decode steps took, by load; it goes on to change."""
        return self._step_times

    def drops(self) -> DropStatus:
        """Return how the acceptance stands against what is usual."""
        return self._drops.status()

    def saved(self) -> dict[str, Any] | None:
        """Return what is worth keeping over a restart of the exporter, in a form that JSON can hold.

        That is what was learnt, with the K and the drafter that it was learnt of: the engine may be between
        two processes, or without work. What waits to be recalled is kept as it is. None: nothing.
        """
        if self._remembered is not None:
            return dict(self._remembered)
        if not self._tokens:
            return None
        return {"tokens": self._tokens, **self._drafter._asdict(), "drops": self._drops.saved()}

    def remember(self, saved: Mapping[str, Any]) -> None:
        """Go on with what ``saved`` returned, as soon as the engine turns out to draft as it did then."""
        self._remembered, self._drafting = saved, 0.0

    @property
    def _method(self) -> str:
        return self._assumptions.speculation.method

    def _recall(self, tokens: int, increment: Increment) -> None:
        """Go on with what is remembered, or leave it, as soon as it is clear whether that was this engine."""
        if self._remembered is None:
            return
        if increment.counters[Counter.DRAFTS]:
            self._drafting += increment.end - increment.begin
        known = self._remembered.get("tokens")
        may_show_more = isinstance(known, int) and tokens < known and self._drafting < SURE_AFTER
        if may_show_more or not tokens:
            return
        remembered, self._remembered = self._remembered, None
        drafter = _remembered_drafter(remembered)
        if known != tokens or drafter.is_another(self._drafter):
            return
        if self._drops.restore(remembered.get("drops") or {}):
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
