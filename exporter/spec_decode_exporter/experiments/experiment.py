"""Experiment: arms of engines that serve the same work in different ways, compared with a baseline arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Final

from spec_decode_exporter.experiments.arm import Arm, ArmPace, SpeedupBasis
from spec_decode_exporter.experiments.arm_first_token import (
    ArmFirstToken,
    Histograms,
    arm_first_token,
)
from spec_decode_exporter.experiments.arm_speedup import ArmSpeedup, arm_speedup
from spec_decode_exporter.experiments.comparability import (
    Conditions,
    comparable,
    conditions,
    same_traffic,
)
from spec_decode_exporter.experiments.standardised import (
    TypeTimesOf,
    added_types,
    no_times,
    standardised_paces,
)
from spec_decode_exporter.analysis.recommendation import is_better
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window

OFF: Final = "off"
"""Method of an engine that does not speculate."""
MIN_COVERAGE: Final = 0.5
"""Share of an arm's tokens that requests with a known type must have."""
_NO_GAIN: Final = Estimate(1.0, 1.0, 1.0, 0.0)
"""Speed-up of the baseline over itself."""


@dataclass(frozen=True, slots=True)
class Member:
    """Engine that may take part in experiments."""

    labels: Mapping[str, str]
    """Labels that arms match: ``name``, ``model_name``, ``method`` and the target's own labels."""
    windows: tuple[Window, ...]
    """Windows, ascending by length; empty if the engine is gone."""
    histograms: Histograms = field(default_factory=dict, repr=False)
    """Histograms over the longest window."""
    types: TypeTimesOf = field(default=no_times, compare=False)
    """Times of its target's requests by type."""

    def matches(self, match: Mapping[str, str]) -> bool:
        """Return whether the engine has all of these labels."""
        return all(self.labels.get(label) == value for label, value in match.items())


@dataclass(frozen=True, slots=True)
class ArmWindow:
    """Results of an arm over one window."""

    length: float
    """Length of the window in seconds."""
    engines: int
    """Engines with polls in it."""
    requests: int | None
    """Requests that began; None if no engine counts them."""
    acceptance_length: float | None
    """In tokens, the bonus token included; None without drafts."""
    conditions: Conditions = field(default_factory=dict)
    """Conditions of the comparison; empty for the baseline itself."""
    speedups: Mapping[SpeedupBasis, ArmSpeedup] = field(default_factory=dict)
    """Speed-ups over the baseline, if both can be compared."""
    first_token: ArmFirstToken = field(default_factory=ArmFirstToken)
    """Time to first token and prefix-cache hits; quantiles only over the longest window."""
    standardised: bool = False
    """The time per output token is at the mix of request types of both arms."""

    def may_win(self, basis: SpeedupBasis) -> bool:
        """Return whether its traffic allows to name a winner by a basis."""
        by_type = self.standardised and basis is SpeedupBasis.TIME_PER_OUTPUT_TOKEN
        return same_traffic(self.conditions, standardised=by_type)


@dataclass(frozen=True, slots=True)
class ArmFindings:
    """Results of an arm."""

    windows: tuple[ArmWindow, ...]
    """Windows, ascending by length; at least one."""
    wins: Mapping[SpeedupBasis, bool]
    """True if it is significantly the fastest (95 %) over the longest window, by one comparison alone.

    ``ExperimentTracker`` requires repeated comparisons."""
    serves: frozenset[tuple[str, str]] = frozenset()
    """Model names and methods of its engines."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Results of an experiment."""

    name: str
    baseline: str
    arms: Mapping[str, ArmFindings]
    """Arms by name, in configured order; the baseline is one of them."""
    faster: frozenset[tuple[str, str]]
    """Pairs of arms of which the first is significantly faster (95 %), at the same traffic.

    By the time per output token over the longest window, in one comparison alone. End to end the first is
    faster too, with a lower bound above 1."""


def arm_of(settings: ExperimentSettings, member: Member) -> str | None:
    """Return the arm of an engine; at most one matches, since arms exclude each other."""
    matching = (name for name, arm in settings.arms.items() if member.matches(arm.match))
    return next(matching, None)


def compare(
    settings: ExperimentSettings, members: Sequence[Member], lengths: Sequence[float], newest: float
) -> Experiment:
    """Compare each arm with the baseline over the windows of ``lengths``, which end at ``newest``."""
    arms: dict[str, list[Member]] = {name: [] for name in settings.arms}
    for member in members:
        name = arm_of(settings, member)
        if name is not None:
            arms[name].append(member)
    sums = {name: [_arm(engines, length, newest) for length in lengths] for name, engines in arms.items()}
    baselines = [(arm, arm.measures()) for arm in sums[settings.baseline]]
    windows = {
        name: tuple(
            _baseline_window(arm) if name == settings.baseline else _window(arm, *baseline)
            for arm, baseline in zip(each, baselines, strict=True)
        )
        for name, each in sums.items()
    }
    windows = {name: tuple(_with_first_token(sums[name], arms[name], each)) for name, each in windows.items()}
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
    """Return the arm that is significantly faster (95 %) than all others; None if there is none.

    Its lower bound is above 1 and above the upper bounds of the others. The baseline wins if all upper bounds
    are below 1. An arm without requests is ignored. An arm with requests that cannot be compared, or whose
    traffic differs, may be the fastest, so there is no winner.
    """
    active = {
        name: arm for name, arm in arms.items() if name != baseline and arm.engines and arm.requests != 0
    }
    bounds = {
        name: estimate
        for name, arm in active.items()
        if arm.may_win(basis) and (estimate := _estimate(arm, basis)) is not None
    }
    if not bounds or len(bounds) < len(active):
        return None
    if all(each.upper < 1 for each in bounds.values()):
        return baseline
    best = max(bounds, key=lambda name: bounds[name].lower)
    others = (each.upper for name, each in bounds.items() if name != best)
    return best if bounds[best].lower > max([1.0, *others]) else None


def speedup_of(experiment: Experiment, name: str) -> Estimate | None:
    """Return the speed-up by the time per output token over the longest window; None without bounds."""
    arm = experiment.arms[name].windows[-1]
    return _gain(experiment.baseline, name, arm, SpeedupBasis.TIME_PER_OUTPUT_TOKEN)


def _gain(baseline: str, name: str, arm: ArmWindow, basis: SpeedupBasis) -> Estimate | None:
    return _NO_GAIN if name == baseline else _estimate(arm, basis)


def _faster(baseline: str, arms: Mapping[str, ArmWindow]) -> frozenset[tuple[str, str]]:
    """Return the pairs that differ by decoding, and whose first answers whole requests sooner too."""
    decoding, whole = (
        {
            name: gain
            for name, arm in arms.items()
            if arm.may_win(basis) and (gain := _gain(baseline, name, arm, basis)) is not None
        }
        for basis in (SpeedupBasis.TIME_PER_OUTPUT_TOKEN, SpeedupBasis.END_TO_END)
    )
    return frozenset(
        (faster, slower)
        for faster, slower in permutations(decoding.keys() & whole.keys(), 2)
        if is_better(decoding[faster], decoding[slower])
        and whole[faster].lower > 1.0
        and whole[faster].value > whole[slower].value
    )


def _estimate(arm: ArmWindow, basis: SpeedupBasis) -> Estimate | None:
    speedup = arm.speedups.get(basis)
    return None if speedup is None else speedup.estimate


def _serves(engines: Sequence[Member]) -> frozenset[tuple[str, str]]:
    return frozenset((each.labels["model_name"], each.labels["method"]) for each in engines)


def _arm(engines: Sequence[Member], length: float, newest: float) -> Arm:
    """Sum the engines that have a window of that length; after a reload some may not have it yet."""
    windows = (window for member in engines for window in member.windows if window.length == length)
    # Engines of one target share its requests.
    targets = {(each.labels.get("name"), each.labels["model_name"]): each.types for each in engines}
    types = added_types(times(newest - length, newest) for times in targets.values())
    arm = Arm(length, newest, tuple(window for window in windows if window.polls), _method(engines), types)
    return arm if _covered(arm) else replace(arm, types={})


def _covered(arm: Arm) -> bool:
    """Return whether the requests with a type have most of the arm's tokens: the others may differ."""
    tokens = sum(sum(times.tokens) for times in arm.types.values())
    return tokens >= MIN_COVERAGE * (arm.total(Counter.GENERATION_TOKENS) or 0)


def _method(engines: Sequence[Member]) -> str | None:
    """Return the only method of the engines; None if there is none."""
    methods = {member.labels["method"] for member in engines}
    return methods.pop() if len(methods) == 1 and not methods & {"", OFF} else None


def _with_first_token(
    arms: Sequence[Arm], engines: Sequence[Member], windows: Sequence[ArmWindow]
) -> Iterator[ArmWindow]:
    """Yield the windows of an arm with their times to first token."""
    histograms = [member.histograms for member in engines if member.windows]
    for place, (arm, window) in enumerate(zip(arms, windows, strict=True), 1):
        is_longest = place == len(windows)
        yield replace(window, first_token=arm_first_token(arm.windows, histograms if is_longest else ()))


def _baseline_window(arm: Arm) -> ArmWindow:
    return ArmWindow(arm.length, len(arm.windows), arm.total(Counter.FIRST_TOKENS), arm.acceptance_length)


def _window(arm: Arm, baseline: Arm, paces: Mapping[SpeedupBasis, ArmPace]) -> ArmWindow:
    """Compare an arm with its baseline by each basis."""
    results = conditions(arm, baseline)
    own = arm.measures() if comparable(results) else {}
    speedups = {basis: arm_speedup(paces[basis], pace) for basis, pace in own.items() if basis in paces}
    by_type = standardised_paces(baseline.types, arm.types, min(arm.cosines, baseline.cosines))
    if speedups and by_type is not None:
        speedups[SpeedupBasis.TIME_PER_OUTPUT_TOKEN] = arm_speedup(*by_type)
    return ArmWindow(
        arm.length,
        len(arm.windows),
        arm.total(Counter.FIRST_TOKENS),
        arm.acceptance_length,
        results,
        speedups,
        standardised=by_type is not None,
    )
