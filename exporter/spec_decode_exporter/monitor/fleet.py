"""Fleet of target monitors: discovery adds and removes targets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import structlog

from spec_decode_exporter.analysis.figure_table import FIGURE
from spec_decode_exporter.analysis.knowledge import FasterMethod
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import Background, cancel, keep_running, spawn, yield_to_event_loop
from spec_decode_exporter.costs.learned import Learned
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.experiments.experiment import ArmFindings, Claims, Experiment, arm_of, compare
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.monitor.target_monitor import ExperimentMember, Shared, TargetMonitor

_log = structlog.get_logger()

MANY_TARGETS, QUIET_SECONDS = 10, 60.0  # new at once: one line says so, and theirs of this time are quiet
_DIGITS: Final = 4  # decimals: a tenth of a millisecond, a hundredth of a percent
_FIGURES: Final = (
    "acceptance_length_tokens",
    "draft_acceptance_ratio",
    "estimated_speedup_ratio",
    "time_per_output_token_seconds",
    "time_to_first_token_seconds",
    "prefix_cache_hit_ratio",
)
TargetKey = tuple[str, str]
T = TypeVar("T")


class Fleet:
    """Monitors of all targets, each with a task that polls it."""

    def __init__(self, config: Config, shared: Shared) -> None:
        """Monitor no target yet."""
        self.shared, self.config = shared, config
        self.not_monitored = 0  # discovered targets beyond the limit
        self._monitors: dict[TargetKey, TargetMonitor] = {}
        self._tasks: dict[TargetKey, asyncio.Task[None]] = {}
        self._wanted: Sequence[Target] = ()
        self._changes, self._background = asyncio.Lock(), Background()

    def adopt(self, config: Config) -> None:
        """Use a configuration for the targets that are followed from now on."""
        self.config = config

    def __iter__(self) -> Iterator[TargetMonitor]:
        return iter(list(self._monitors.values()))

    def engines(self) -> Iterator[tuple[Mapping[str, str], EngineSnapshot]]:
        """Yield the labels and the snapshot of each engine."""
        for monitor in self:
            yield from monitor.snapshots()

    def each(self, part: str, work: Callable[[TargetMonitor], T]) -> Iterator[T]:
        """Yield the result of ``work`` for each target; omit a target for which it raises."""
        return self.shared.errors.each(part, self, lambda monitor: monitor.item, work)

    def follow(self, targets: Sequence[Target]) -> None:
        """Monitor these targets after earlier changes; beyond the limit, configured ones come first."""
        limit = self.shared.limit(self.config)
        self._wanted = sorted(targets, key=lambda target: bool(target.found_by))[:limit]
        before, self.not_monitored = self.not_monitored, len(targets) - len(self._wanted)
        if self.not_monitored and not before:
            remedy = "raise limits.engines and the memory limit of the container, or use shards"
            fields = {"targets": self.not_monitored, "limit": limit, "remedy": remedy}
            _log.warning("targets_not_monitored", **fields)
        self._background.start(self._follow(self._wanted))

    def watch(self, targets: Sequence[Target]) -> None:
        """Monitor these targets without polling them: an observation polls them, or reads a recording."""
        self._monitors = {target.key: TargetMonitor(target, self.config, self.shared) for target in targets}

    def remember(self) -> None:
        """Hand over the learned state of the engines for persistence."""
        for monitor in self:
            monitor.remember()

    async def stop(self) -> None:
        """Stop polling; connections stay open until ``close``."""
        await self._background.cancel()
        async with self._changes:
            await cancel(self._tasks.values())

    async def close(self) -> None:
        """Close every connection."""
        for monitor in self:
            await self.shared.errors.attempt_async("closing", monitor.close, monitor.item)

    async def _follow(self, targets: Sequence[Target]) -> None:
        async with self._changes:
            if targets is not self._wanted:
                return  # a later list replaces this one
            wanted = {target.key: target for target in targets}
            added, gone = wanted.keys() - self._monitors.keys(), self._monitors.keys() - wanted.keys()
            if len(added) > MANY_TARGETS:
                self.shared.events.be_quiet(QUIET_SECONDS)
            for key in gone:
                await self._leave(key)
            for key, target in wanted.items():
                work = partial(self._follow_one, key, target)
                await self.shared.errors.attempt_async("target", work, {"target": target.name})
                await yield_to_event_loop()  # a list may bring ten thousand targets at once
            if added or gone:
                changes = {"added": len(added), "removed": len(gone)}
                _log.info("targets_changed", targets=len(wanted), **changes)

    async def _leave(self, key: TargetKey) -> None:
        await cancel([self._tasks.pop(key, None)])
        monitor = self._monitors.pop(key)
        monitor.remember()
        await self.shared.errors.attempt_async("closing", monitor.close, monitor.item)

    async def _follow_one(self, key: TargetKey, target: Target) -> None:
        """Monitor a target; keep a monitor that exists, and change its settings if they differ."""
        monitor = self._monitors.get(key)
        if monitor is None:
            monitor = self._monitors[key] = TargetMonitor(target, self.config, self.shared)
        elif key in self._tasks and monitor.fits(target, self.config):
            return
        else:
            await cancel([self._tasks.pop(key, None)])
            await monitor.change(target, self.config)
        polling = keep_running(
            "polling", lambda: monitor.poller().run(), self.shared.errors, self.shared.clock, monitor.item
        )
        self._tasks[key] = spawn(polling)


async def write_summaries(interval: float, fleet: Fleet) -> None:
    """Write a line for each engine every ``interval`` seconds, until cancelled.

    Its first fields are those of vLLM's own line about drafts (``SpecDecodingLogging``), with the same names.
    """
    clock, errors = fleet.shared.clock, fleet.shared.errors
    while True:
        await clock.sleep_until(clock.monotonic() + interval)
        for labels, snapshot in fleet.engines():
            line = errors.attempt("summary", labels, partial(summary_line, labels, snapshot))
            if line:
                _log.info("engine_summary", **line)
            await yield_to_event_loop()


def summary_line(labels: Mapping[str, str], snapshot: EngineSnapshot) -> dict[str, object] | None:
    """Return the fields of an engine's line, without unknown ones; None without drafts in the window."""
    evaluation = snapshot.evaluation
    if not evaluation.windows or not evaluation.longest.total.drafts:
        return None
    longest, total = evaluation.longest, evaluation.longest.total
    seconds, positions = longest.window.seconds, longest.positions
    rates = [_rounded(rate) for rate in positions.acceptance]
    fields: dict[str, object] = {
        **{name: labels[name] for name in ("target", "model_name", "engine")},
        "window": longest.label,
        "seconds": seconds,
        "drafts": total.drafts,
        "mean_acceptance_length": longest.acceptance_length_tokens,
        "accepted_throughput": ratio(total.accepted_tokens, seconds),
        "drafted_throughput": ratio(total.draft_tokens, seconds),
        "accepted_tokens": total.accepted_tokens,
        "drafted_tokens": total.draft_tokens,
        "per_position_acceptance_rate": rates if positions.are_known else None,
        "avg_draft_acceptance_rate": longest.draft_acceptance_ratio,
        "state": str(evaluation.state),
        "verdict": str(evaluation.verdict),
        "recommendation": str(evaluation.action),
        "configured_tokens": snapshot.tokens or None,
        "recommended_tokens": evaluation.decision.advice.tokens,
    }
    for figure in map(FIGURE.__getitem__, _FIGURES):
        fields[figure.key] = figure.of(longest)
        if figure.bounds and (bounds := figure.bounds(longest)):
            fields |= {f"{figure.key}_lower": bounds.lower, f"{figure.key}_upper": bounds.upper}
    return {name: _rounded(value) for name, value in fields.items() if value is not None}


def _rounded(value: object) -> object:
    return round(value, _DIGITS) if isinstance(value, float) else value


class ExperimentMonitor:
    """Repeated comparisons of the arms of all experiments, and their last results.

    Engines use them too: steps of the baseline show the cost of drafting, a faster arm is a better method.
    """

    def __init__(self, errors: Isolation | None = None) -> None:
        """Compare nothing until ``adopt``; ``errors`` omits an experiment that fails."""
        self._errors = errors or Isolation()
        self._compared: dict[str, tuple[ExperimentSettings, Claims]] = {}
        self._results: dict[str, Experiment] = {}
        self._informed: set[EngineMonitor] = set()  # engines that use results

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
