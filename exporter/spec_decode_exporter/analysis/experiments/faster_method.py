"""Whether an arm of an experiment drafts by another method, and is faster beyond doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spec_decode_exporter.analysis.experiments.experiment import ArmFindings, Experiment, Member, speedup_of
from spec_decode_exporter.figures.estimate import Estimate

OFF: Final = "off"
"""The method of an engine that does not speculate."""


@dataclass(frozen=True, slots=True)
class FasterMethod:
    """An arm that is faster than an engine's own, by the time per output token over the longest window."""

    experiment: str
    arm: str
    """The name of that arm."""
    method: str
    """By which it drafts, as its servers or their configuration call it."""
    speedup: Estimate
    """Of that arm, against the baseline."""
    own: Estimate
    """Of the engine's own arm."""


def faster_method(experiment: Experiment, arm: str, member: Member) -> FasterMethod | None:
    """Return the fastest arm that is better than ``arm``, which ``member`` is in; None if there is none.

    It serves the same model, all of it, by one method that is known to be another one. To stop speculating is
    no method.
    """
    own = speedup_of(experiment, arm)
    if own is None or member.labels["method"] in {"", OFF}:
        return None
    others = [
        FasterMethod(experiment.name, name, method, speedup, own)
        for name, findings in experiment.arms.items()
        if (name, arm) in experiment.faster
        and (method := _other_method(findings, member))
        and (speedup := speedup_of(experiment, name)) is not None
    ]
    return max(others, key=lambda other: other.speedup.lower, default=None)


def _other_method(arm: ArmFindings, member: Member) -> str | None:
    """Return the one other method by which all engines of an arm serve the same model."""
    if len(arm.serves) != 1:
        return None
    ((model_name, method),) = arm.serves
    mine = member.labels
    is_one = model_name == mine["model_name"] and method not in {"", OFF, mine["method"]}
    return method if is_one else None
