"""Experiment: arms of engines that serve the same work in different ways, compared with a baseline arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

from spec_decode_exporter.analysis.knowledge import FasterMethod
from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.core.recurring import persistent
from spec_decode_exporter.experiments.arm import Arm, SpeedupBasis
from spec_decode_exporter.experiments.pace import TypeTimesOf, added_types
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.engine_windows import Window

OFF: Final = "off"  # method of an engine that does not speculate
MIN_COVERAGE: Final = 0.5  # share of an arm's tokens that requests with a known type must have
_WINS: Final = "wins"
_DECODING, _WHOLE = SpeedupBasis.TIME_PER_OUTPUT_TOKEN, SpeedupBasis.END_TO_END


@dataclass(frozen=True, slots=True)
class Member:
    """Engine that may take part in experiments."""

    labels: Mapping[str, str]
    """Labels that arms match: ``name``, ``model_name``, ``method`` and the target's own labels."""
    windows: tuple[Window, ...]  # windows, ascending by length; empty if the engine is gone
    histograms: Mapping[Latency, Buckets] = field(default_factory=dict, repr=False)
    """Histograms over the longest window; empty if the server has none."""
    types: TypeTimesOf = field(default=lambda _begin, _end: {}, compare=False)
    """Times of its target's requests by type."""


@dataclass(frozen=True, slots=True)
class ArmFindings:
    """Results of an arm."""

    windows: tuple[Arm, ...]  # windows, ascending by length; at least one
    wins: Mapping[SpeedupBasis, bool]
    """True if it is significantly the fastest (95 %) over the longest window."""
    serves: frozenset[tuple[str, str]] = frozenset()  # model names and methods of its engines


@dataclass(frozen=True, slots=True)
class Experiment:
    """Results of an experiment."""

    name: str
    baseline: str
    arms: Mapping[str, ArmFindings]  # arms by name, in configured order; the baseline is one of them
    faster: frozenset[tuple[str, str]]
    """Pairs of arms of which the first is significantly faster (95 %), whatever their traffic explains.

    By the time per output token over the longest window. End to end the first is faster too, with a lower
    bound above 1."""

    def faster_method(self, arm: str, member: Member) -> FasterMethod | None:
        """Return the fastest arm that is better than ``arm``, the arm of ``member``; None if there is none.

        All its engines serve the same model by one other known method. ``off`` is no method.
        """
        own = self.arms[arm].windows[-1].gain(_DECODING)
        model_name, method = member.labels["model_name"], member.labels["method"]
        if own is None or method in {"", OFF}:
            return None
        better = [
            FasterMethod(self.name, name, served[1], speedup, own)
            for name, other in self.arms.items()
            if (name, arm) in self.faster and (speedup := other.windows[-1].gain(_DECODING)) is not None
            for served in other.serves
            if len(other.serves) == 1 and served[0] == model_name and served[1] not in {"", OFF, method}
        ]
        return max(better, key=lambda each: each.speedup.lower, default=None)


def arm_of(settings: ExperimentSettings, member: Member) -> str | None:
    """Return the arm whose labels an engine has; at most one matches, since arms exclude each other."""
    has = member.labels.items()
    return next((name for name, arm in settings.arms.items() if arm.match.items() <= has), None)


Claims = dict[tuple[str, ...], float]  # since when (monotonic) an arm wins by a basis, or beats another one


def compare(
    settings: ExperimentSettings,
    members: Sequence[Member],
    lengths: Sequence[float],
    newest: float,
    claims: Claims | None = None,
) -> Experiment:
    """Compare each arm with the baseline over the windows of ``lengths``, which end at ``newest``.

    With ``claims``, those of the comparisons before, an arm is faster only after a whole longest window.
    """
    placed = [(arm_of(settings, member), member) for member in members]
    engines = {name: [member for arm, member in placed if arm == name] for name in settings.arms}
    baselines = [_arm(engines[settings.baseline], length, newest, lengths[-1]) for length in lengths]
    windows = {
        name: tuple(
            each if name == settings.baseline else _arm(own, each.length, newest, lengths[-1], each)
            for each in baselines
        )
        for name, own in engines.items()
    }
    longest = {name: each[-1] for name, each in windows.items()}
    winners = {(_WINS, winner(settings.baseline, longest, basis) or "", basis) for basis in SpeedupBasis}
    faster = _faster(longest)
    claimed = faster | winners
    confirmed = claimed if claims is None else persistent(claims, claimed, newest, lengths[-1])
    arms = {
        name: ArmFindings(
            each,
            {basis: (_WINS, name, basis) in confirmed for basis in SpeedupBasis},
            frozenset((member.labels["model_name"], member.labels["method"]) for member in engines[name]),
        )
        for name, each in windows.items()
    }
    return Experiment(settings.name, settings.baseline, arms, faster & confirmed)


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


def _faster(arms: Mapping[str, Arm]) -> frozenset[tuple[str, str]]:
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
        and _is_faster(arms[faster], arms[slower], _DECODING)
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
    return Arm(
        windows,
        length,
        newest,
        baseline=baseline,
        method=methods.pop() if len(methods) == 1 and not methods & {"", OFF} else None,
        types=types if sum(each.tokens for each in types.values()) >= MIN_COVERAGE * generated else {},
        histograms=[member.histograms for member in engines if member.windows] if length == longest else (),
    )
