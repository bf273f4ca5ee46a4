"""Experiment: arms of engines that serve the same work in different ways, compared with a baseline arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Final

from spec_decode_exporter.analysis.knowledge import FasterMethod
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.experiments.arm import Arm, SpeedupBasis
from spec_decode_exporter.experiments.comparability import (
    Conditions,
    are_comparable,
    conditions,
    same_traffic,
)
from spec_decode_exporter.experiments.pace import ArmSpeedup, Pace
from spec_decode_exporter.experiments.standardised import (
    TypeTimesOf,
    added_types,
    no_times,
    standardised_paces,
)
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.history import Window

OFF: Final = "off"
"""Method of an engine that does not speculate."""
MIN_COVERAGE: Final = 0.5
"""Share of an arm's tokens that requests with a known type must have."""
_NO_GAIN: Final = Estimate(1.0, 1.0, 1.0, 0.0)
"""Speed-up of the baseline over itself."""
_DECODING: Final = SpeedupBasis.TIME_PER_OUTPUT_TOKEN


@dataclass(frozen=True, slots=True)
class Member:
    """Engine that may take part in experiments."""

    labels: Mapping[str, str]
    """Labels that arms match: ``name``, ``model_name``, ``method`` and the target's own labels."""
    windows: tuple[Window, ...]
    """Windows, ascending by length; empty if the engine is gone."""
    histograms: Mapping[Latency, Buckets] = field(default_factory=dict, repr=False)
    """Histograms over the longest window; empty if the server has none."""
    types: TypeTimesOf = field(default=no_times, compare=False)
    """Times of its target's requests by type."""

    def matches(self, match: Mapping[str, str]) -> bool:
        """Return whether the engine has all of these labels."""
        return all(self.labels.get(label) == value for label, value in match.items())


class ArmWindow(Arm):
    """An arm over one window, compared with the baseline."""

    @cached_property
    def conditions(self) -> Conditions:
        """Conditions of the comparison; empty for the baseline itself."""
        return {} if self.baseline is None else conditions(self, self.baseline)

    @cached_property
    def speedups(self) -> Mapping[SpeedupBasis, ArmSpeedup]:
        """Speed-ups over the baseline, if both can be compared."""
        if self.baseline is None or not are_comparable(self.conditions):
            return {}
        own, others = self.paces, self.baseline.paces
        found = {basis: own[basis].speedup_over(others[basis]) for basis in own if basis in others}
        if found and self._by_type:
            baseline, arm = self._by_type
            found[_DECODING] = arm.speedup_over(baseline)
        return found

    def gain(self, basis: SpeedupBasis) -> Estimate | None:
        """Return the speed-up by a basis for a winner; None without bounds, or if the traffic differs."""
        is_standardised = self._by_type is not None and basis is _DECODING
        if not same_traffic(self.conditions, is_standardised=is_standardised):
            return None
        if self.baseline is None:
            return _NO_GAIN
        return self.speedups[basis].estimate if basis in self.speedups else None

    @cached_property
    def _by_type(self) -> tuple[Pace, Pace] | None:
        """Seconds per token of the baseline and of this arm, at the mix of request types of both."""
        if self.baseline is None:
            return None
        return standardised_paces(self.baseline.types, self.types, min(self.cosines, self.baseline.cosines))


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

    def faster_method(self, arm: str, member: Member) -> FasterMethod | None:
        """Return the fastest arm that is better than ``arm``, the arm of ``member``; None if there is none.

        All its engines serve the same model by one other known method. ``off`` is no method.
        """
        own = self.arms[arm].windows[-1].gain(_DECODING)
        model_name, method = member.labels["model_name"], member.labels["method"]
        if own is None or method in {"", OFF}:
            return None
        found = []
        for name, other in self.arms.items():
            speedup = other.windows[-1].gain(_DECODING)
            if (name, arm) not in self.faster or len(other.serves) != 1 or speedup is None:
                continue
            ((its_model, its_method),) = other.serves
            if its_model == model_name and its_method not in {"", OFF, method}:
                found.append(FasterMethod(self.name, name, its_method, speedup, own))
        return max(found, key=lambda each: each.speedup.lower, default=None)


def arm_of(settings: ExperimentSettings, member: Member) -> str | None:
    """Return the arm of an engine; at most one matches, since arms exclude each other."""
    matching = (name for name, arm in settings.arms.items() if member.matches(arm.match))
    return next(matching, None)


def compare(
    settings: ExperimentSettings, members: Sequence[Member], lengths: Sequence[float], newest: float
) -> Experiment:
    """Compare each arm with the baseline over the windows of ``lengths``, which end at ``newest``."""
    engines: dict[str, list[Member]] = {name: [] for name in settings.arms}
    for member in members:
        name = arm_of(settings, member)
        if name is not None:
            engines[name].append(member)
    baselines = [_window(engines[settings.baseline], length, newest, lengths[-1]) for length in lengths]
    arms = {
        name: tuple(
            each if name == settings.baseline else _window(own, each.length, newest, lengths[-1], each)
            for each in baselines
        )
        for name, own in engines.items()
    }
    longest = {name: each[-1] for name, each in arms.items()}
    winners = {basis: winner(settings.baseline, longest, basis) for basis in SpeedupBasis}
    findings = {
        name: ArmFindings(
            each,
            {basis: winners[basis] == name for basis in SpeedupBasis},
            frozenset((its.labels["model_name"], its.labels["method"]) for its in engines[name]),
        )
        for name, each in arms.items()
    }
    return Experiment(settings.name, settings.baseline, findings, _faster(longest))


def winner(baseline: str, arms: Mapping[str, ArmWindow], basis: SpeedupBasis) -> str | None:
    """Return the arm that is significantly faster (95 %) than all others; None if there is none.

    Its lower bound is above 1 and above the upper bounds of the others. The baseline wins if all upper bounds
    are below 1. An arm without requests is ignored. An arm with requests that cannot be compared, or whose
    traffic differs, may be the fastest, so there is no winner.
    """
    active = {
        name: arm for name, arm in arms.items() if name != baseline and arm.engines and arm.requests != 0
    }
    bounds = {name: gain for name, arm in active.items() if (gain := arm.gain(basis)) is not None}
    if not bounds or len(bounds) < len(active):
        return None
    if all(each.upper < 1 for each in bounds.values()):
        return baseline
    best = max(bounds, key=lambda name: bounds[name].lower)
    others = (each.upper for name, each in bounds.items() if name != best)
    return best if bounds[best].lower > max([1.0, *others]) else None


def _faster(arms: Mapping[str, ArmWindow]) -> frozenset[tuple[str, str]]:
    """Return the pairs that differ by decoding, and whose first answers whole requests sooner too."""
    decoding, whole = (
        {name: gain for name, arm in arms.items() if (gain := arm.gain(basis)) is not None}
        for basis in (_DECODING, SpeedupBasis.END_TO_END)
    )
    return frozenset(
        (faster, slower)
        for faster, slower in permutations(decoding.keys() & whole.keys(), 2)
        if decoding[faster].lower > max(decoding[slower].upper, 1.0)
        and whole[faster].lower > 1.0
        and whole[faster].value > whole[slower].value
    )


def _window(
    engines: Sequence[Member], length: float, newest: float, longest: float, baseline: Arm | None = None
) -> ArmWindow:
    """Sum the engines that have a window of that length; after a reload some may not have it yet."""
    methods = {member.labels["method"] for member in engines}
    # Engines of one target share its requests.
    targets = {(each.labels.get("name"), each.labels["model_name"]): each.types for each in engines}
    types = added_types(times(newest - length, newest) for times in targets.values())
    windows = [each for member in engines for each in member.windows if each.length == length and each.polls]
    generated = sum(window.total.generation_tokens or 0 for window in windows)
    typed = sum(sum(times.tokens) for times in types.values())
    return ArmWindow(
        windows,
        length,
        newest,
        baseline=baseline,
        method=methods.pop() if len(methods) == 1 and not methods & {"", OFF} else None,
        types=types if typed >= MIN_COVERAGE * generated else {},
        histograms=[member.histograms for member in engines if member.windows] if length == longest else (),
    )
