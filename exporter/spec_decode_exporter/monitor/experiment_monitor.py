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


class ExperimentMember(NamedTuple):
    """An engine, as experiments see it."""

    member: Member
    engine: EngineMonitor


class ExperimentMonitor:
    """What is compared, and what came of it the last time."""

    def __init__(self) -> None:
        """Compare nothing until ``adopt``."""
        self._trackers: Sequence[ExperimentTracker] = ()
        self._found: dict[str, Experiment] = {}
        self._told: list[EngineMonitor] = []
        self._containment = Containment()

    def adopt(self, settings: Sequence[ExperimentSettings]) -> None:
        """Compare these from now on; of one that stays as it is, what was seen goes on to count."""
        before = {tracker.settings.name: tracker for tracker in self._trackers}
        self._trackers = [
            tracker
            if (tracker := before.get(each.name)) and tracker.settings == each
            else ExperimentTracker(each)
            for each in settings
        ]
        self._found = {}

    async def compare(
        self, members: Iterable[ExperimentMember], lengths: Sequence[float], now: float
    ) -> None:
        """Compare all arms over the windows of ``lengths`` until ``now`` (monotonic); polls go on in between.

        An experiment that fails by a defect of ours is left out; it is in the log once.
        """
        trackers = self._trackers
        engines: list[ExperimentMember] = []
        if trackers:
            engines = self._containment.attempt("members", now, lambda: list(members)) or []
        engine_members = [each.member for each in engines]
        found: dict[str, Experiment] = {}
        for tracker in trackers:
            name = tracker.settings.name
            experiment = self._containment.attempt(
                f"experiment {name}", now, partial(tracker.compare, engine_members, lengths, now)
            )
            if experiment is not None:
                found[name] = experiment
            await asyncio.sleep(0)
        if (
            trackers is self._trackers
        ):  # else they were adopted meanwhile, and nobody asked for these any more
            self._found = found
            self._containment.attempt("telling", now, lambda: self._tell(engines, now))
        self._report()

    def findings(self) -> Iterator[tuple[dict[str, str], ArmFindings]]:
        """Yield the labels and findings of every arm."""
        for name, experiment in self._found.items():
            for arm, findings in experiment.arms.items():
                yield {"experiment": name, "arm": arm, "baseline": experiment.baseline}, findings

    def _tell(self, members: Sequence[ExperimentMember], now: float) -> None:
        for engine in self._told:
            engine.compare((), None)
        baselines: defaultdict[EngineMonitor, list[StepTimes]] = defaultdict(list)
        faster: dict[EngineMonitor, FasterMethod] = {}
        for tracker in self._trackers:
            learn = partial(self._learn, tracker.settings, members, baselines, faster)
            self._containment.attempt(f"experiment {tracker.settings.name}", now, learn)
        for _, engine in members:
            engine.compare(baselines[engine], faster.get(engine))
        self._told = [member.engine for member in members]

    def _learn(
        self,
        settings: ExperimentSettings,
        members: Sequence[ExperimentMember],
        baselines: Mapping[EngineMonitor, list[StepTimes]],
        faster: dict[EngineMonitor, FasterMethod],
    ) -> None:
        """Add what one experiment says of its engines; of several rivals, the first one's counts."""
        placed = [(arm_of(settings, member.member), *member) for member in members]
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
                faster.setdefault(engine, found)

    def _report(self) -> None:
        for event in self._containment.events():
            level = _log.warning if event.is_bad else _log.info
            level(event.name, **event.fields)
