"""Faster method: an arm of an experiment with another method that is significantly faster (95 %)."""

from __future__ import annotations

from dataclasses import dataclass

from spec_decode_exporter.experiments.experiment import (
    OFF,
    ArmFindings,
    Experiment,
    Member,
    speedup_of,
)
from spec_decode_exporter.figures.estimate import Estimate


@dataclass(frozen=True, slots=True)
class FasterMethod:
    """An arm that is faster than an engine's own, by token and end to end, over the longest window."""

    experiment: str
    arm: str
    """Name of the faster arm."""
    method: str
    """Method of that arm, as its servers or their configuration name it."""
    speedup: Estimate
    """Speed-up of that arm over the baseline."""
    own: Estimate
    """Speed-up of the engine's own arm over the baseline."""


def faster_method(experiment: Experiment, arm: str, member: Member) -> FasterMethod | None:
    """Return the fastest arm that is better than ``arm``, the arm of ``member``; None if there is none.

    All its engines serve the same model by one other known method. ``off`` is no method.
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
    """Return the method of an arm if all its engines serve the same model by one other method."""
    if len(arm.serves) != 1:
        return None
    ((model_name, method),) = arm.serves
    mine = member.labels
    is_one = model_name == mine["model_name"] and method not in {"", OFF, mine["method"]}
    return method if is_one else None
