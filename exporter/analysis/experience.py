"""What is learnt of an engine over hours, beyond its windows: what drafting costs, and what is usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.analysis.cost import fixed_tokens
from exporter.analysis.drop import DropChange
from exporter.analysis.drops import DropStatus, DropWatch
from exporter.analysis.judgement import Assumptions
from exporter.analysis.method_costs import undrafted_steps_are_plain
from exporter.analysis.step_times import StepTimes
from exporter.config.pay_settings import LoadCost
from exporter.scrape.engines import Counter, Gauge
from exporter.scrape.sample import Sample
from exporter.window.counts import Increment
from exporter.window.engine import EngineHistory


class Experience:
    """Learns from each increment of an engine; starts anew with another drafter."""

    def __init__(self, assumptions: Assumptions) -> None:
        """Learn about an engine of which this is known."""
        self._assumptions = assumptions
        self._step_times = StepTimes()
        self._drops = DropWatch(assumptions.policy.drops)
        self._beginnings = 0
        self._remembered: Mapping[str, Any] | None = None

    def assume(self, assumptions: Assumptions) -> None:
        """Go on with other knowledge; of another drafter, what was learnt of the old one says nothing."""
        before, self._assumptions = self._assumptions, assumptions
        self._drops.policy = assumptions.policy.drops
        if _drafter(before) != _drafter(assumptions):
            self._start_anew()

    def observe(self, increment: Increment, sample: Sample, history: EngineHistory) -> Sequence[DropChange]:
        """Take an increment that ``history`` has already; return the drops that begin or end with it."""
        if history.beginnings != self._beginnings:
            self._beginnings = history.beginnings
            self._start_anew()
        self._recall(history.tokens)
        if history.knows_steps:
            plain = not history.speculates or undrafted_steps_are_plain(self._method)
            self._step_times.observe(increment, sample.gauge(Gauge.RUNNING_REQUESTS), plain=plain)
        counters = increment.counters
        return self._drops.observe(
            increment.begin,
            increment.end,
            counters[Counter.DRAFTS],
            counters[Counter.ACCEPTED_TOKENS],
            increment.positions,
        )

    def costs(self) -> tuple[LoadCost, ...]:
        """Return what a draft token was seen to cost, by load."""
        return self._step_times.costs(fixed_tokens(self._method))

    def drops(self) -> DropStatus:
        """Return how the acceptance stands against what is usual."""
        return self._drops.status()

    def saved(self, tokens: int) -> dict[str, Any]:
        """Return what is worth keeping over a restart of the exporter, in a form that JSON can hold."""
        return {"tokens": tokens, "method": self._method, "drops": self._drops.saved()}

    def remember(self, saved: Mapping[str, Any]) -> None:
        """Go on with what ``saved`` returned, as soon as the engine turns out to draft as it did then."""
        self._remembered = saved

    @property
    def _method(self) -> str:
        return self._assumptions.speculation.method

    def _recall(self, tokens: int) -> None:
        if self._remembered is None or not tokens:
            return
        remembered, self._remembered = self._remembered, None
        if (remembered.get("tokens"), remembered.get("method")) == (tokens, self._method):
            self._drops.restore(remembered.get("drops") or {})

    def _start_anew(self) -> None:
        self._step_times.forget_drafting()
        self._drops.start_anew()


def _drafter(assumptions: Assumptions) -> tuple[str, str]:
    return assumptions.speculation.method, assumptions.speculation.draft_model
