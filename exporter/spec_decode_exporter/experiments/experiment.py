"""Experiment: arms of engines that serve the same work in different ways, compared with a baseline arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Final

from spec_decode_exporter.analysis.knowledge import FasterMethod
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.core.recurring import PersistenceFilter
from spec_decode_exporter.experiments.arm import Arm, SpeedupBasis
from spec_decode_exporter.experiments.pace import ArmSpeedup, TypeTimesOf, added_types
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.history import Window

OFF: Final = "off"
"""Method of an engine that does not speculate."""
MIN_COVERAGE: Final = 0.5
"""Share of an arm's tokens that requests with a known type must have."""
_WINS: Final = "wins"
_NO_GAIN: Final = ArmSpeedup(1.0, Estimate(1.0, 1.0, 1.0, 0.0))
"""Speed-up of the baseline over itself."""
_DECODING, _WHOLE = SpeedupBasis.TIME_PER_OUTPUT_TOKEN, SpeedupBasis.END_TO_END


@dataclass(frozen=True, slots=True)
class Member:
    """Engine that may take part in experiments."""

    labels: Mapping[str, str]
    """Labels that arms match: ``name``, ``model_name``, ``method`` and the target's own labels."""
    windows: tuple[Window, ...]
    """Windows, ascending by length; empty if the engine is gone."""
    histograms: Mapping[Latency, Buckets] = field(default_factory=dict, repr=False)
    """Histograms over the longest window; empty if the server has none."""
    types: TypeTimesOf = field(default=lambda _begin, _end: {}, compare=False)
    """Times of its target's requests by type."""


@dataclass(frozen=True, slots=True)
class ArmFindings:
    """Results of an arm."""

    windows: tuple[Arm, ...]
    """Windows, ascending by length; at least one."""
    wins: Mapping[SpeedupBasis, bool]
    """True if it is significantly the fastest (95 %) over the longest window, by one comparison alone.

    ``ExperimentTracker`` requires repeated comparisons."""
    serves: frozenset[tuple[str, str]] = frozenset()
    """Model names and methods of its engines."""

    def gain(self, basis: SpeedupBasis) -> Estimate | None:
        """Return the speed-up over the baseline in the longest window; None without bounds."""
        longest = self.windows[-1]
        found = _NO_GAIN if longest.baseline is None else longest.speedups.get(basis)
        return None if found is None else found.estimate


@dataclass(frozen=True, slots=True)
class Experiment:
    """Results of an experiment."""

    name: str
    baseline: str
    arms: Mapping[str, ArmFindings]
    """Arms by name, in configured order; the baseline is one of them."""
    faster: frozenset[tuple[str, str]]
    """Pairs of arms of which the first is significantly faster (95 %), whatever their traffic explains.

    By the time per output token over the longest window, in one comparison alone. End to end the first is
    faster too, with a lower bound above 1."""

    def faster_method(self, arm: str, member: Member) -> FasterMethod | None:
        """Return the fastest arm that is better than ``arm``, the arm of ``member``; None if there is none.

        All its engines serve the same model by one other known method. ``off`` is no method.
        """
        own = self.arms[arm].gain(_DECODING)
        model_name, method = member.labels["model_name"], member.labels["method"]
        if own is None or method in {"", OFF}:
            return None
        found = []
        for name, other in self.arms.items():
            speedup = other.gain(_DECODING)
            if (name, arm) not in self.faster or len(other.serves) != 1 or speedup is None:
                continue
            ((its_model, its_method),) = other.serves
            if its_model == model_name and its_method not in {"", OFF, method}:
                found.append(FasterMethod(self.name, name, its_method, speedup, own))
        return max(found, key=lambda each: each.speedup.lower, default=None)


def arm_of(settings: ExperimentSettings, member: Member) -> str | None:
    """Return the arm whose labels an engine has; at most one matches, since arms exclude each other."""
    has = member.labels.items()
    return next((name for name, arm in settings.arms.items() if arm.match.items() <= has), None)


def compare(
    settings: ExperimentSettings, members: Sequence[Member], lengths: Sequence[float], newest: float
) -> Experiment:
    """Compare each arm with the baseline over the windows of ``lengths``, which end at ``newest``."""
    engines: dict[str, list[Member]] = {name: [] for name in settings.arms}
    for member in members:
        name = arm_of(settings, member)
        if name is not None:
            engines[name].append(member)
    baselines = [_arm(engines[settings.baseline], length, newest, lengths[-1]) for length in lengths]
    windows = {
        name: tuple(
            each if name == settings.baseline else _arm(own, each.length, newest, lengths[-1], each)
            for each in baselines
        )
        for name, own in engines.items()
    }
    longest = {name: each[-1] for name, each in windows.items()}
    winners = {basis: winner(settings.baseline, longest, basis) for basis in SpeedupBasis}
    arms = {
        name: ArmFindings(
            each,
            {basis: winners[basis] == name for basis in SpeedupBasis},
            frozenset((its.labels["model_name"], its.labels["method"]) for its in engines[name]),
        )
        for name, each in windows.items()
    }
    return Experiment(settings.name, settings.baseline, arms, _faster(arms))


def winner(baseline: str, arms: Mapping[str, Arm], basis: SpeedupBasis) -> str | None:
    """Return the arm that is significantly faster (95 %) than each other arm with requests; None without.

    The baseline must have requests. An arm without bounds may be the fastest, so there is no winner.
    """
    active = {name: arm for name, arm in arms.items() if arm.engines and arm.requests != 0}
    if baseline not in active or len(active) == 1:
        return None
    names = (
        name
        for name, arm in active.items()
        if all(_is_faster(arm, other, basis) for other in active.values() if other is not arm)
    )
    return next(names, None)


def _is_faster(arm: Arm, other: Arm, basis: SpeedupBasis) -> bool:
    speedup = (arm.speedups if other is arm.baseline else arm.speedups_over(other)).get(basis)
    return speedup is not None and speedup.estimate is not None and speedup.estimate.lower > 1


def _faster(arms: Mapping[str, ArmFindings]) -> frozenset[tuple[str, str]]:
    """Return the pairs that differ by decoding, and whose first answers whole requests sooner too."""
    decoding, whole = (
        {name: gain for name, arm in arms.items() if (gain := arm.gain(basis)) is not None}
        for basis in (_DECODING, _WHOLE)
    )
    return frozenset(
        (faster, slower)
        for faster, slower in permutations(decoding.keys() & whole.keys(), 2)
        if decoding[faster].lower > max(decoding[slower].upper, 1.0)
        and whole[faster].lower > 1.0
        and whole[faster].value > whole[slower].value
        and _is_faster(arms[faster].windows[-1], arms[slower].windows[-1], _DECODING)
    )


def _arm(
    engines: Sequence[Member], length: float, newest: float, longest: float, baseline: Arm | None = None
) -> Arm:
    """Sum the engines that have a window of that length; after a reload some may not have it yet."""
    methods = {member.labels["method"] for member in engines}
    # Engines of one target share its requests.
    targets = {(each.labels.get("name"), each.labels["model_name"]): each.types for each in engines}
    types = added_types(times(newest - length, newest) for times in targets.values())
    windows = [each for member in engines for each in member.windows if each.length == length and each.polls]
    generated = sum(window.total.generation_tokens or 0 for window in windows)
    typed = sum(times.tokens for times in types.values())
    return Arm(
        windows,
        length,
        newest,
        baseline=baseline,
        method=methods.pop() if len(methods) == 1 and not methods & {"", OFF} else None,
        types=types if typed >= MIN_COVERAGE * generated else {},
        histograms=[member.histograms for member in engines if member.windows] if length == longest else (),
    )


class ExperimentTracker:
    """Compares one experiment repeatedly; an arm is faster only after a whole longest window."""

    def __init__(self, settings: ExperimentSettings) -> None:
        self.settings = settings
        self._claims = PersistenceFilter[tuple[str, ...]]()

    def compare(self, members: Sequence[Member], lengths: Sequence[float], newest: float) -> Experiment:
        """Compare as ``experiment.compare`` does, and omit results that are too new."""
        current = compare(self.settings, members, lengths, newest)
        wins = ((name, basis) for name, arm in current.arms.items() for basis, won in arm.wins.items() if won)
        claims: list[tuple[str, ...]] = [*((_WINS, *win) for win in wins), *current.faster]
        confirmed = self._claims.confirmed(claims, newest, lengths[-1])
        arms = {
            name: replace(arm, wins={basis: (_WINS, name, basis) in confirmed for basis in arm.wins})
            for name, arm in current.arms.items()
        }
        return replace(
            current, arms=arms, faster=frozenset(pair for pair in current.faster if pair in confirmed)
        )
