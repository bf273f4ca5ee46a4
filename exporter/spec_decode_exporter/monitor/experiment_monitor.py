"""Experiments: repeated comparisons of the configured arms, and their results for the engines.

Engines use the results too: steps of the baseline show the cost of drafting, and a faster arm is a
better method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from spec_decode_exporter.analysis.knowledge import FasterMethod
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.costs.learned import Learned
from spec_decode_exporter.experiments.experiment import (
    ArmFindings,
    Claims,
    Experiment,
    Member,
    arm_of,
    compare,
)
from spec_decode_exporter.experiments.pace import ArmTypes
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor

RequestTimes = Callable[[str, str, float, float], ArmTypes]
"""Return the times of requests by type: of a model and a target, between two moments (monotonic)."""
ExperimentMember = tuple[Member, EngineMonitor]
"""Engine that may take part in experiments."""


class ExperimentMonitor:
    """Compares all experiments, and keeps the last results."""

    def __init__(self, errors: Isolation | None = None) -> None:
        """Compare nothing until ``adopt``; ``errors`` omits an experiment that fails."""
        self._errors = errors or Isolation()
        self._compared: dict[str, tuple[ExperimentSettings, Claims]] = {}
        self._results: dict[str, Experiment] = {}
        self._informed: set[EngineMonitor] = set()
        """Engines that use results."""

    def adopt(self, settings: Sequence[ExperimentSettings]) -> None:
        """Compare these experiments from now on; unchanged ones keep their state."""
        kept = {name: compared for name, compared in self._compared.items() if compared[0] in settings}
        self._compared = {each.name: kept.get(each.name) or (each, Claims()) for each in settings}
        self._results = {}

    async def compare(
        self, members: Iterable[ExperimentMember], lengths: Sequence[float], now: float
    ) -> None:
        """Compare all arms over the windows of ``lengths`` until ``now``, monotonic; yield after each."""
        compared, results = self._compared, dict[str, Experiment]()
        engines = list(members) if compared else []
        for name, (settings, claims) in compared.items():
            work = partial(compare, settings, [member for member, _ in engines], lengths, now, claims)
            experiment = self._errors.attempt("comparison", {"experiment": name}, work)
            if experiment is not None:
                results[name] = experiment
            await yield_to_event_loop()
        if compared is self._compared:  # else others were adopted during the comparison
            self._results = results
            self._inform(engines)

    def findings(self) -> Iterator[tuple[dict[str, str], ArmFindings]]:
        """Yield the labels and the findings of every arm."""
        for name, experiment in self._results.items():
            for arm, findings in experiment.arms.items():
                yield {"experiment": name, "arm": arm, "baseline": experiment.baseline}, findings

    def _inform(self, members: Sequence[ExperimentMember]) -> None:
        """Hand the results to the engines; of several faster methods the first counts."""
        baselines: defaultdict[EngineMonitor, list[Learned]] = defaultdict(list)
        faster: dict[EngineMonitor, FasterMethod] = {}
        for name, (settings, _) in self._compared.items():
            experiment = self._results.get(name)
            placed = [(arm_of(settings, member), member, engine) for member, engine in members]
            plain: defaultdict[str, list[Learned]] = defaultdict(list)
            for arm, member, engine in placed:
                if arm == settings.baseline:
                    plain[member.labels["model_name"]].append(engine.learned)
            for arm, member, engine in placed:
                if arm is not None and arm != settings.baseline:
                    baselines[engine].extend(plain[member.labels["model_name"]])
                better = experiment and arm and experiment.faster_method(arm, member)
                if better:
                    faster.setdefault(engine, better)
        engines = {engine for _, engine in members}
        for engine in engines | self._informed:
            engine.use_experiments(baselines[engine], faster.get(engine))
        self._informed = engines
