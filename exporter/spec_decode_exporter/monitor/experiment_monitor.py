"""Experiments: repeated comparisons of the configured arms, and their results for the engines.

Engines use the results too: step times of the baseline yield the cost of drafting, and a faster arm is a
better method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from spec_decode_exporter.analysis.knowledge import FasterMethod
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.core.cooperative_yield import yield_to_event_loop
from spec_decode_exporter.core.debounce import PersistenceFilter
from spec_decode_exporter.core.internal_errors import NO_ITEM, InternalErrors
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import (
    ArmFindings,
    Experiment,
    Member,
    arm_of,
    compare,
)
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.step_times import StepTimes


class ExperimentMember(NamedTuple):
    """Engine that may take part in experiments."""

    member: Member
    engine: EngineMonitor


class ExperimentTracker:
    """Compares one experiment repeatedly; an arm is faster only after a whole longest window."""

    def __init__(self, settings: ExperimentSettings) -> None:
        self.settings = settings
        self._winners: PersistenceFilter[tuple[str, SpeedupBasis]] = PersistenceFilter()
        self._faster: PersistenceFilter[tuple[str, str]] = PersistenceFilter()

    def compare(self, members: Sequence[Member], lengths: Sequence[float], newest: float) -> Experiment:
        """Compare as ``experiment.compare`` does, and omit results that are too new."""
        current, longest = compare(self.settings, members, lengths, newest), lengths[-1]
        claims = [
            (name, basis) for name, arm in current.arms.items() for basis, won in arm.wins.items() if won
        ]
        winners = self._winners.confirmed(claims, newest, longest)
        arms = {
            name: replace(arm, wins={basis: (name, basis) in winners for basis in SpeedupBasis})
            for name, arm in current.arms.items()
        }
        return replace(current, arms=arms, faster=self._faster.confirmed(current.faster, newest, longest))


class ExperimentMonitor:
    """Compares all experiments, and keeps the last results."""

    def __init__(self, errors: InternalErrors | None = None) -> None:
        """Compare nothing until ``adopt``; ``errors`` omits an experiment that fails."""
        self._errors = errors or InternalErrors()
        self._trackers: Sequence[ExperimentTracker] = ()
        self._results: dict[str, Experiment] = {}
        self._informed: set[EngineMonitor] = set()
        """Engines that use results."""

    def adopt(self, settings: Sequence[ExperimentSettings]) -> None:
        """Compare these experiments from now on; unchanged ones keep their state."""
        before = {tracker.settings.name: tracker for tracker in self._trackers}
        self._trackers = [
            tracker
            if (tracker := before.get(each.name)) and tracker.settings == each
            else ExperimentTracker(each)
            for each in settings
        ]
        self._results = {}

    async def compare(
        self, members: Iterable[ExperimentMember], lengths: Sequence[float], now: float
    ) -> None:
        """Compare all arms over the windows of ``lengths`` until ``now`` (monotonic).

        It yields to the event loop after each experiment.
        """
        trackers = self._trackers
        engines: list[ExperimentMember] = []
        if trackers:
            engines = self._errors.attempt("comparison", NO_ITEM, lambda: list(members)) or []
        engine_members = [each.member for each in engines]
        results: dict[str, Experiment] = {}
        for tracker in trackers:
            experiment = self._errors.attempt(
                "comparison",
                _item(tracker.settings),
                partial(tracker.compare, engine_members, lengths, now),
            )
            if experiment is not None:
                results[tracker.settings.name] = experiment
            await yield_to_event_loop()
        if trackers is self._trackers:  # else others were adopted during the comparison
            self._results = results
            self._errors.attempt("experiment results", NO_ITEM, lambda: self._inform(engines))

    def findings(self) -> Iterator[tuple[dict[str, str], ArmFindings]]:
        """Yield the labels and the findings of every arm."""
        for name, experiment in self._results.items():
            for arm, findings in experiment.arms.items():
                yield {"experiment": name, "arm": arm, "baseline": experiment.baseline}, findings

    def _inform(self, members: Sequence[ExperimentMember]) -> None:
        engines = {engine for _, engine in members}
        for engine in self._informed - engines:
            engine.use_experiments((), None)
        baselines: defaultdict[EngineMonitor, list[StepTimes]] = defaultdict(list)
        faster: dict[EngineMonitor, FasterMethod] = {}
        for tracker in self._trackers:
            learn = partial(self._learn, tracker.settings, members, baselines, faster)
            self._errors.attempt("experiment results", _item(tracker.settings), learn)
        for _, engine in members:
            engine.use_experiments(baselines[engine], faster.get(engine))
        self._informed = engines

    def _learn(
        self,
        settings: ExperimentSettings,
        members: Sequence[ExperimentMember],
        baselines: Mapping[EngineMonitor, list[StepTimes]],
        faster: dict[EngineMonitor, FasterMethod],
    ) -> None:
        """Add the results of one experiment for its engines; of several faster methods the first counts."""
        placed = [(arm_of(settings, member.member), *member) for member in members]
        plain: defaultdict[str, list[StepTimes]] = defaultdict(list)
        for arm, member, engine in placed:
            if arm == settings.baseline:
                plain[member.labels["model_name"]].append(engine.step_times)
        experiment = self._results.get(settings.name)
        for arm, member, engine in placed:
            if arm is None:
                continue
            if arm != settings.baseline:
                baselines[engine].extend(plain[member.labels["model_name"]])
            better = experiment and experiment.faster_method(arm, member)
            if better:
                faster.setdefault(engine, better)


def _item(settings: ExperimentSettings) -> Mapping[str, str]:
    """Return the log fields that name an experiment."""
    return {"experiment": settings.name}
