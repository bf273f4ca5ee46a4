"""The experiments that are configured, compared again and again.

What the arms show is told to their engines too: the steps of the baseline say what drafting costs, and a
faster arm that there is a better method.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import structlog

from spec_decode_exporter.analysis.experiments.experiment import ArmFindings, Experiment, Member, arm_of
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod, faster_method
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.monitor.containment import Containment
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.experiment_tracker import ExperimentTracker
from spec_decode_exporter.monitor.step_times import StepTimes

_log = structlog.get_logger()


class Contestant(NamedTuple):
    """An engine, as experiments see it."""

    member: Member
    engine: EngineMonitor


class ExperimentMonitor:
    """What is compared, and what came of it the last time."""

    def __init__(self) -> None:
        """Compare nothing until ``adopt``."""
        self._contests: Sequence[ExperimentTracker] = ()
        self._found: dict[str, Experiment] = {}
        self._told: list[EngineMonitor] = []
        self._containment = Containment()

    def adopt(self, settings: Sequence[ExperimentSettings]) -> None:
        """Compare these from now on; of one that stays as it is, what was seen goes on to count."""
        before = {contest.settings.name: contest for contest in self._contests}
        self._contests = [
            contest
            if (contest := before.get(each.name)) and contest.settings == each
            else ExperimentTracker(each)
            for each in settings
        ]
        self._found = {}

    async def compare(self, contestants: Iterable[Contestant], lengths: Sequence[float], now: float) -> None:
        """Compare all arms over the windows of ``lengths`` until ``now`` (monotonic); polls go on in between.

        An experiment that fails by a defect of ours is left out; it is in the log once.
        """
        contests = self._contests
        engines: list[Contestant] = []
        if contests:
            engines = self._containment.attempt("contestants", now, lambda: list(contestants)) or []
        members = [contestant.member for contestant in engines]
        found: dict[str, Experiment] = {}
        for contest in contests:
            name = contest.settings.name
            experiment = self._containment.attempt(
                f"experiment {name}", now, partial(contest.compare, members, lengths, now)
            )
            if experiment is not None:
                found[name] = experiment
            await asyncio.sleep(0)
        if (
            contests is self._contests
        ):  # else they were adopted meanwhile, and nobody asked for these any more
            self._found = found
            self._containment.attempt("telling", now, lambda: self._tell(engines, now))
        self._report()

    def findings(self) -> Iterator[tuple[dict[str, str], ArmFindings]]:
        """Yield the labels and findings of every arm."""
        for name, experiment in self._found.items():
            for arm, findings in experiment.arms.items():
                yield {"experiment": name, "arm": arm, "baseline": experiment.baseline}, findings

    def _tell(self, contestants: Sequence[Contestant], now: float) -> None:
        for engine in self._told:
            engine.compare((), None)
        baselines: defaultdict[EngineMonitor, list[StepTimes]] = defaultdict(list)
        rivals: dict[EngineMonitor, FasterMethod] = {}
        for contest in self._contests:
            learn = partial(self._learn, contest.settings, contestants, baselines, rivals)
            self._containment.attempt(f"experiment {contest.settings.name}", now, learn)
        for _, engine in contestants:
            engine.compare(baselines[engine], rivals.get(engine))
        self._told = [contestant.engine for contestant in contestants]

    def _learn(
        self,
        settings: ExperimentSettings,
        contestants: Sequence[Contestant],
        baselines: Mapping[EngineMonitor, list[StepTimes]],
        rivals: dict[EngineMonitor, FasterMethod],
    ) -> None:
        """Add what one experiment says of its engines; of several rivals, the first one's counts."""
        placed = [(arm_of(settings, contestant.member), *contestant) for contestant in contestants]
        plain: defaultdict[str, list[StepTimes]] = defaultdict(list)
        for arm, member, engine in placed:
            if arm == settings.baseline:
                plain[member.labels["model_name"]].append(engine.step_times)
        experiment = self._found.get(settings.name)
        for arm, member, engine in placed:
            if arm is None:
                continue
            if arm != settings.baseline:
                baselines[engine].extend(plain[member.labels["model_name"]])
            found = experiment and faster_method(experiment, arm, member)
            if found:
                rivals.setdefault(engine, found)

    def _report(self) -> None:
        for event in self._containment.events():
            level = _log.warning if event.is_bad else _log.info
            level(event.name, **event.fields)
