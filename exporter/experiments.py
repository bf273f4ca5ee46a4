"""The experiments that are configured, compared again and again.

What the arms show is told to their engines too: the steps of the baseline say what drafting costs, and a
faster arm that there is a better method.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import structlog

from exporter.analysis.containment import Containment
from exporter.analysis.engine import EngineWatch
from exporter.analysis.experiment import ArmFindings, Experiment, Member, arm_of, compare
from exporter.analysis.rival import Rival, rival
from exporter.analysis.step_times import StepTimes
from exporter.config.experiment_settings import ExperimentSettings

_log = structlog.get_logger()


class Contestant(NamedTuple):
    """An engine, as experiments see it."""

    member: Member
    engine: EngineWatch


class Experiments:
    """What is compared, and what came of it the last time."""

    def __init__(self) -> None:
        """Compare nothing until ``adopt``."""
        self._settings: Sequence[ExperimentSettings] = ()
        self._found: dict[str, Experiment] = {}
        self._told: list[EngineWatch] = []
        self._containment = Containment()

    def adopt(self, settings: Sequence[ExperimentSettings]) -> None:
        """Compare these from now on."""
        self._settings = settings
        self._found = {}

    async def compare(self, contestants: Iterable[Contestant], lengths: Sequence[float], now: float) -> None:
        """Compare all arms over the windows of ``lengths`` until ``now`` (monotonic); polls go on in between.

        An experiment that fails by a defect of ours is left out; it is in the log once.
        """
        settings = self._settings
        engines = list(contestants) if settings else []
        members = [contestant.member for contestant in engines]
        found: dict[str, Experiment] = {}
        for each in settings:
            experiment = self._containment.attempt(
                f"experiment {each.name}", now, partial(compare, each, members, lengths, now)
            )
            if experiment is not None:
                found[each.name] = experiment
            await asyncio.sleep(0)
        if (
            settings is self._settings
        ):  # else they were adopted meanwhile, and nobody asked for these any more
            self._found = found
            self._containment.attempt("telling", now, lambda: self._tell(engines))
        self._report()

    def findings(self) -> Iterator[tuple[dict[str, str], ArmFindings]]:
        """Yield the labels and findings of every arm."""
        for name, experiment in self._found.items():
            for arm, findings in experiment.arms.items():
                yield {"experiment": name, "arm": arm, "baseline": experiment.baseline}, findings

    def _tell(self, contestants: Sequence[Contestant]) -> None:
        for engine in self._told:
            engine.compare((), None)
        for contestant in contestants:
            contestant.engine.compare(
                tuple(self._baselines(contestants, contestant.member)),
                self._rival(contestants, contestant.member),
            )
        self._told = [contestant.engine for contestant in contestants]

    def _baselines(self, contestants: Sequence[Contestant], member: Member) -> Iterator[StepTimes]:
        """Yield the step times of the baselines that an engine is held against and that serve its model."""
        for settings in self._settings:
            if arm_of(settings, member) in {None, settings.baseline}:
                continue
            for other, engine in contestants:
                same = other.labels["model_name"] == member.labels["model_name"]
                if same and arm_of(settings, other) == settings.baseline:
                    yield engine.step_times

    def _rival(self, contestants: Sequence[Contestant], member: Member) -> Rival | None:
        members = [contestant.member for contestant in contestants]
        rivals = (
            rival(settings, self._found[settings.name], members, member)
            for settings in self._settings
            if settings.name in self._found
        )
        return next(filter(None, rivals), None)

    def _report(self) -> None:
        for event in self._containment.events():
            level = _log.warning if event.is_bad else _log.info
            level(event.name, **event.fields)
