"""Whether an arm of an experiment drafts by another method, and is faster beyond doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exporter.analysis.arm import Basis
from exporter.analysis.estimate import Estimate
from exporter.analysis.experiment import ArmFindings, Experiment, Member
from exporter.analysis.recommendation import is_better

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


def rival(experiment: Experiment, arm: str, member: Member) -> Rival | None:
    """Return the fastest arm that is better than ``arm``, which ``member`` is in; None if there is none.

    It serves the same model, all of it, by one method that is known to be another one. To stop speculating is
    no method.
    """
    own = _speedup(experiment, arm)
    if own is None or member.labels["method"] in {"", OFF}:
        return None
    others = (
        speedup
        for name, findings in experiment.arms.items()
        if _is_another_method(findings, member)
        and (speedup := _speedup(experiment, name)) is not None
        and is_better(speedup, own)
    )
    best = max(others, key=lambda speedup: speedup.lower, default=None)
    return None if best is None else Rival(best, own)


def _is_another_method(arm: ArmFindings, member: Member) -> bool:
    """Return whether all engines of an arm serve the same model by one other method."""
    if len(arm.serves) != 1:
        return False
    ((model_name, method),) = arm.serves
    mine = member.labels
    return model_name == mine["model_name"] and method not in {"", OFF, mine["method"]}


def _speedup(experiment: Experiment, name: str) -> Estimate | None:
    if name == experiment.baseline:
        return _NO_GAIN
    found = experiment.arms[name].windows[-1].speedups.get(Basis.TIME_PER_OUTPUT_TOKEN)
    return None if found is None else found.estimate
