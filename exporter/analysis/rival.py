"""Whether an arm of an experiment drafts by another method, and is faster beyond doubt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.analysis.arm import Basis
from exporter.analysis.estimate import Estimate
from exporter.analysis.experiment import ArmFindings, Experiment, Member, arm_of
from exporter.analysis.recommendation import is_better
from exporter.config.experiment_settings import ExperimentSettings

OFF: Final = "off"
"""The method of an engine that does not speculate."""

_NO_GAIN: Final = Estimate(1.0, 1.0, 1.0, 0.0)
"""The baseline against itself."""


@dataclass(frozen=True, slots=True)
class Rival:
    """An arm that is faster than an engine's own, by the time per output token over the longest window."""

    speedup: Estimate
    """Of that arm, against the baseline."""
    own: Estimate
    """Of the engine's own arm."""


def rival(
    settings: ExperimentSettings, experiment: Experiment, members: Sequence[Member], member: Member
) -> Rival | None:
    """Return the fastest arm that is better than the one ``member`` is in; None if there is none.

    It serves the same model, all of it, by one method that is known to be another one. To stop speculating is
    no method.
    """
    own = _speedup(experiment, arm_of(settings, member))
    if own is None or member.labels["method"] in {"", OFF}:
        return None
    others = (
        speedup
        for name in _other_methods(settings, members, member)
        if (speedup := _speedup(experiment, name)) is not None and is_better(speedup, own)
    )
    best = max(others, key=lambda speedup: speedup.lower, default=None)
    return None if best is None else Rival(best, own)


def _other_methods(settings: ExperimentSettings, members: Sequence[Member], member: Member) -> Iterator[str]:
    """Yield the arms all of whose engines serve the same model by one other method."""
    mine = member.labels
    for name in settings.arms:
        served = {
            (other.labels["model_name"], other.labels["method"])
            for other in members
            if arm_of(settings, other) == name
        }
        if len(served) == 1:
            ((model_name, method),) = served
            if model_name == mine["model_name"] and method not in {"", OFF, mine["method"]}:
                yield name


def _speedup(experiment: Experiment, name: str | None) -> Estimate | None:
    if name is None:
        return None
    if name == experiment.baseline:
        return _NO_GAIN
    arm: ArmFindings = experiment.arms[name]
    found = arm.windows[-1].speedups.get(Basis.TIME_PER_OUTPUT_TOKEN)
    return None if found is None else found.estimate
