"""What would make models fit that do not: fewer bits a weight, the least change first."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from exporter.plan.dtype import dtype_of
from exporter.plan.memory import Part, room
from exporter.plan.plan import Plan

_TRIED: Final = (
    ("", "int8", "the draft in 8 bits"),
    ("int8", "", "the target in 8 bits"),
    ("int8", "int8", "both in 8 bits"),
    ("int4", "", "the target in 4 bits"),
    ("int4", "int8", "the target in 4 bits and the draft in 8"),
)
"""Dtypes of target and draft; empty to leave one as it is."""


def remedy(plan: Plan) -> str:
    """Return the least that would make the models fit, in a sentence."""
    wanted = plan.wanted
    for of_target, of_draft, words in _TRIED:
        if of_draft and wanted.draft is None:
            continue
        parts = [_in(wanted.target, of_target)]
        parts += [] if wanted.draft is None else [_in(wanted.draft, of_draft)]
        if room(wanted.gpus, parts, wanted.context, wanted.element_bytes).fits:
            return f"It would fit with {words}."
    return "Take more or larger GPUs, or a shorter --context."


def _in(part: Part, name: str) -> Part:
    """Return a model with its weights in another dtype, if that takes less; empty for its own."""
    if not name or dtype_of(name).bits >= part.model.dtype.bits:
        return part
    dtype = dtype_of(name)
    size = min(part.model.parameters.weight_bytes(dtype), part.model.weight_bytes)
    return replace(part, model=replace(part.model, dtype=dtype, weight_bytes=size))
