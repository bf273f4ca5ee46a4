"""An experiment: arms of engines that serve the same work in different ways, held against one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

from spec_decode_exporter.analysis.experiments.arm import Arm, ArmPace, SpeedupBasis
from spec_decode_exporter.analysis.experiments.arm_speedup import ArmSpeedup, arm_speedup
from spec_decode_exporter.analysis.experiments.comparability import Conditions, comparable, conditions
from spec_decode_exporter.analysis.recommendation import is_better
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window

_NO_GAIN: Final = Estimate(1.0, 1.0, 1.0, 0.0)
"""The baseline against itself."""


@dataclass(frozen=True, slots=True)
class Member:
    """An engine that may take part in experiments."""

    labels: Mapping[str, str]
    """What arms are matched by: ``name``, ``model_name``, ``method`` and the target's own labels."""
    windows: tuple[Window, ...]
    """Ascending by length; empty where the engine was not seen for too long."""

    def matches(self, match: Mapping[str, str]) -> bool:
        """Return whether it has all of these labels."""
        return all(self.labels.get(label) == value for label, value in match.items())


@dataclass(frozen=True, slots=True)
class ArmWindow:
    """An arm over one window, beside the baseline."""

    length: float
    """Of the window, in seconds."""
    engines: int
    """How many were seen in it."""
    requests: int | None
    """How many began; None if no engine tells."""
    acceptance_length: float | None
    """In tokens, the bonus token included; None without drafts."""
    conditions: Conditions = field(default_factory=dict)
    """Which conditions of a comparison hold; none of the baseline itself."""
    speedups: Mapping[SpeedupBasis, ArmSpeedup] = field(default_factory=dict)
    """Against the baseline, where the two can be compared."""


@dataclass(frozen=True, slots=True)
class ArmFindings:
    """What is to be said of an arm."""

    windows: tuple[ArmWindow, ...]
    """Ascending by length; at least one."""
    wins: Mapping[SpeedupBasis, bool]
    """Whether it is the fastest beyond doubt, over the longest window. Of one look alone: see ``Contest``."""
    serves: frozenset[tuple[str, str]] = frozenset()
    """The model names and methods of its engines."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What came of an experiment so far."""

    name: str
    baseline: str
    arms: Mapping[str, ArmFindings]
    """By name, as they are configured; the baseline is one of them."""
    faster: frozenset[tuple[str, str]]
    """Every arm with each that it is faster than beyond doubt, by the time per output token over the longest
    window. Of one look alone, as ``wins`` is."""


def arm_of(settings: ExperimentSettings, member: Member) -> str | None:
    """Return the arm that an engine belongs to; there is one at most, since arms exclude each other."""
    found = (name for name, arm in settings.arms.items() if member.matches(arm.match))
    return next(found, None)


def compare(
    settings: ExperimentSettings, members: Sequence[Member], lengths: Sequence[float], newest: float
) -> Experiment:
    """Hold each arm against the baseline over the windows of ``lengths``, which end at ``newest``."""
    arms: dict[str, list[Member]] = {name: [] for name in settings.arms}
    for member in members:
        name = arm_of(settings, member)
        if name is not None:
            arms[name].append(member)
    sums = {name: [_arm(engines, length, newest) for length in lengths] for name, engines in arms.items()}
    baselines = [(arm, arm.measures()) for arm in sums[settings.baseline]]
    windows = {
        name: tuple(
            _baseline_window(arm) if name == settings.baseline else _window(arm, *held)
            for arm, held in zip(each, baselines, strict=True)
        )
        for name, each in sums.items()
    }
    longest = {name: each[-1] for name, each in windows.items()}
    winners = {basis: winner(settings.baseline, longest, basis) for basis in SpeedupBasis}
    return Experiment(
        settings.name,
        settings.baseline,
        {
            name: ArmFindings(
                each, {basis: winners[basis] == name for basis in SpeedupBasis}, _serves(arms[name])
            )
            for name, each in windows.items()
        },
        _faster(settings.baseline, longest),
    )


def winner(baseline: str, arms: Mapping[str, ArmWindow], basis: SpeedupBasis) -> str | None:
    """Return the arm that is faster than all others beyond doubt; None if there is none.

    Its lower bound is above 1 and above the upper bounds of the others. The baseline wins where all upper
    bounds are below 1. An arm that nobody asks takes no part; one that is asked and cannot be compared may be
    the fastest, so there is no winner.
    """
    asked = {
        name: arm for name, arm in arms.items() if name != baseline and arm.engines and arm.requests != 0
    }
    bounds = {
        name: estimate for name, arm in asked.items() if (estimate := _estimate(arm, basis)) is not None
    }
    if not bounds or len(bounds) < len(asked):
        return None
    if all(each.upper < 1 for each in bounds.values()):
        return baseline
    best = max(bounds, key=lambda name: bounds[name].lower)
    others = (each.upper for name, each in bounds.items() if name != best)
    return best if bounds[best].lower > max([1.0, *others]) else None


def speedup_of(experiment: Experiment, name: str) -> Estimate | None:
    """Return how fast an arm is, by the time per output token over the longest window; None if unsure."""
    return _gain(experiment.baseline, name, experiment.arms[name].windows[-1])


def _gain(baseline: str, name: str, arm: ArmWindow) -> Estimate | None:
    return _NO_GAIN if name == baseline else _estimate(arm, SpeedupBasis.TIME_PER_OUTPUT_TOKEN)


def _faster(baseline: str, arms: Mapping[str, ArmWindow]) -> frozenset[tuple[str, str]]:
    gains = {name: gain for name, arm in arms.items() if (gain := _gain(baseline, name, arm)) is not None}
    return frozenset(
        (one, other) for one, other in permutations(gains, 2) if is_better(gains[one], gains[other])
    )


def _estimate(arm: ArmWindow, basis: SpeedupBasis) -> Estimate | None:
    speedup = arm.speedups.get(basis)
    return None if speedup is None else speedup.estimate


def _serves(engines: Sequence[Member]) -> frozenset[tuple[str, str]]:
    return frozenset((each.labels["model_name"], each.labels["method"]) for each in engines)


def _arm(engines: Sequence[Member], length: float, newest: float) -> Arm:
    """Add up the engines that have a window of that length; one that was just reloaded may not yet."""
    windows = (window for member in engines for window in member.windows if window.length == length)
    return Arm(length, newest, tuple(window for window in windows if window.polls))


def _baseline_window(arm: Arm) -> ArmWindow:
    return ArmWindow(arm.length, len(arm.windows), arm.total(Counter.FIRST_TOKENS), arm.acceptance_length)


def _window(arm: Arm, baseline: Arm, held: Mapping[SpeedupBasis, ArmPace]) -> ArmWindow:
    """Hold an arm against what its baseline takes by each basis."""
    found = conditions(arm, baseline)
    mine = arm.measures() if comparable(found) else {}
    return ArmWindow(
        arm.length,
        len(arm.windows),
        arm.total(Counter.FIRST_TOKENS),
        arm.acceptance_length,
        found,
        {basis: arm_speedup(held[basis], each) for basis, each in mine.items() if basis in held},
    )
