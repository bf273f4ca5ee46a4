"""Scenario as a sequence of changes over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spec_decode_exporter.simulator.scenario import (
        Acceptance,
        AcceptanceChange,
        Load,
        Outputs,
        Phase,
        Prompts,
        RequestKind,
        Restart,
        Scenario,
    )


@dataclass(frozen=True, slots=True)
class LinearChange:
    """Linear change of the mean acceptance from ``mean`` at ``begin`` to the new one at ``end``."""

    begin: float
    end: float
    mean: float

    def toward(self, goal: float, moment: float) -> float:
        """Return the mean at ``moment``; ``goal`` is the new mean."""
        if moment >= self.end:
            return goal
        return self.mean + (goal - self.mean) * (moment - self.begin) / (self.end - self.begin)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions of a new request."""

    acceptance: Acceptance
    load: Load
    coverage: float
    prompts: Prompts
    outputs: Outputs
    mix: tuple[RequestKind, ...] = ()
    glide: LinearChange | None = None

    def mean_acceptance(self, moment: float) -> float:
        """Return the mean acceptance at the first position of a request that arrives at ``moment``."""
        goal = self.acceptance.mean
        return goal if self.glide is None else self.glide.toward(goal, moment)

    def after(self, phase: Phase, begin: float) -> Conditions:
        """Return the conditions after ``phase``, which starts at ``begin``."""
        return replace(
            self,
            acceptance=_changed(self.acceptance, phase.acceptance),
            load=phase.load or self.load,
            coverage=self.coverage if phase.coverage is None else phase.coverage,
            prompts=phase.prompts or self.prompts,
            outputs=phase.outputs or self.outputs,
            mix=self.mix if phase.mix is None else phase.mix,
            glide=None
            if phase.over is None
            else LinearChange(begin, begin + phase.over, self.acceptance.mean),
        )

    def of(self, kind: RequestKind) -> Conditions:
        """Return the conditions of requests of this ``kind``."""
        change = kind.acceptance
        own_mean = change is not None and "mean" in change.model_fields_set
        return replace(
            self,
            acceptance=_changed(self.acceptance, change),
            prompts=kind.prompts or self.prompts,
            outputs=kind.outputs or self.outputs,
            glide=None if own_mean else self.glide,
        )


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """Conditions from ``at`` on, after a restart if there is one."""

    at: float
    conditions: Conditions
    restart: Restart | None = None


def changes(scenario: Scenario) -> Iterator[ConditionChange]:
    """Yield all changes in order, the first at 0; endless if the scenario repeats."""
    for cycle in count():
        begin = cycle * (scenario.repeat or 0.0)
        conditions = _first(scenario)
        yield ConditionChange(begin, conditions)
        for phase in scenario.phases:
            conditions = conditions.after(phase, begin + phase.at)
            yield ConditionChange(begin + phase.at, conditions, phase.restart)
        if scenario.repeat is None:
            return


def _first(scenario: Scenario) -> Conditions:
    return Conditions(
        scenario.acceptance,
        scenario.load,
        scenario.speculation.coverage,
        scenario.prompts,
        scenario.outputs,
        scenario.mix,
    )


def _changed(acceptance: Acceptance, change: AcceptanceChange | None) -> Acceptance:
    if change is None:
        return acceptance
    return acceptance.model_copy(update=change.model_dump(exclude_unset=True))
