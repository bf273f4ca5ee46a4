"""What would make models fit that do not: fewer bits of weights or KV cache, the least change first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan
from spec_decode_exporter.reports.plan.dtype import dtype_of
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart, Room, room


@dataclass(frozen=True, slots=True)
class _Change:
    """Dtypes of target and draft, empty to leave one as it is; and whether the KV cache is kept in FP8."""

    words: str
    target: str = ""
    draft: str = ""
    small_cache: bool = False


_CACHE: Final = "the KV cache in 8 bits (--kv-cache-dtype fp8)"
_CHANGES: Final = (
    _Change("the draft in 8 bits", draft="int8"),
    _Change(_CACHE, small_cache=True),
    _Change("the target in 8 bits", "int8"),
    _Change("both in 8 bits", "int8", "int8"),
    _Change("the target in 4 bits", "int4"),
    _Change("the target in 4 bits and the draft in 8", "int4", "int8"),
    _Change("both in 4 bits", "int4", "int4"),
    _Change(f"both in 4 bits and {_CACHE}", "int4", "int4", small_cache=True),
)


def remedy(plan: DeploymentPlan) -> str:
    """Return the least that would make the models fit, in a sentence, and whether the target alone does."""
    alone = _alone(plan)
    for change in _CHANGES:
        found = _room(plan, change)
        if found is not None and found.fits:
            what = "It" if found.sequences is not None else "The weights"
            return f"{what} would fit with {change.words}.{alone}"
    return f"Take more or larger GPUs, or a shorter --context.{alone}"


def _alone(plan: DeploymentPlan) -> str:
    """Return that the target fits without the draft, where there is one and it does."""
    if plan.wanted.draft is None or not plan.alone.fits:
        return ""
    return f" Without the draft {'the weights fit' if plan.alone.sequences is None else 'it fits'}."


def _room(plan: DeploymentPlan, change: _Change) -> Room | None:
    """Return what the models leave then; None where it is the draft's and there is none."""
    wanted = plan.wanted
    if change.draft and wanted.draft is None:
        return None
    parts = [_in(wanted.target, change.target)]
    parts += [] if wanted.draft is None else [_in(wanted.draft, change.draft)]
    return room(wanted.gpus, parts, wanted.context, 1 if change.small_cache else wanted.element_bytes)


def _in(part: MemoryPart, name: str) -> MemoryPart:
    """Return a model with its weights in another dtype, if that takes less; empty for its own."""
    if not name or dtype_of(name).bits >= part.model.dtype.bits:
        return part
    dtype = dtype_of(name)
    size = min(part.model.parameters.weight_bytes(dtype), part.model.weight_bytes)
    return replace(part, model=replace(part.model, dtype=dtype, weight_bytes=size))
