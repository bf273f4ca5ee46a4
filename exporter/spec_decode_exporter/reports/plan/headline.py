"""Verdict and advice of a plan, and the smallest change that makes the models fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from spec_decode_exporter.core.number_formats import gigabytes, plural
from spec_decode_exporter.reports.parts import Tone
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, PlanOutcome, Wanted
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart, Room, room
from spec_decode_exporter.reports.plan.planned_depths import acceptance_rate
from spec_decode_exporter.reports.plan.quantization import dtype_of

WORDS: Final[Mapping[PlanOutcome, tuple[str, Tone]]] = {
    PlanOutcome.FITS: ("fits", Tone.GOOD),
    PlanOutcome.TIGHT: ("tight", Tone.FAIR),
    PlanOutcome.WEIGHTS_FIT: ("weights fit", Tone.FAIR),
    PlanOutcome.DOES_NOT_FIT: ("does not fit", Tone.BAD),
    PlanOutcome.REFUSED: ("refused", Tone.BAD),
}


def word(plan: DeploymentPlan) -> tuple[str, Tone]:
    """Return the outcome in a word; models that fit without a gain are only fair."""
    text, tone = WORDS[plan.outcome]
    return text, Tone.FAIR if tone is Tone.GOOD and not plan.best_tokens else tone


def verdict(plan: DeploymentPlan) -> str:
    """Return the free memory in a sentence."""
    return _VERDICTS.get(plan.outcome, _has_room)(plan)


def advice(plan: DeploymentPlan) -> str:
    """Return the remedy, or the acceptance rate and number of draft tokens that pay."""
    if plan.outcome is PlanOutcome.DOES_NOT_FIT:
        return remedy(plan)
    return " ".join(sentence for sentence in (_pays(plan), _needed(plan), _best(plan)) if sentence)


def _has_room(plan: DeploymentPlan) -> str:
    room, wanted = plan.drafting, plan.wanted
    cache = f"{gigabytes(room.cache_bytes)} are left for the KV cache"
    if room.sequences is None:
        return f"{cache}. The size of a sequence of {wanted.context:,} tokens is unknown."
    return f"{cache}: {plural(room.sequences, 'sequence')} of {wanted.context:,} tokens."


def _lacks_room(plan: DeploymentPlan) -> str:
    if plan.drafting.cache_bytes > 0:
        return f"Not one sequence of {plan.wanted.context:,} tokens fits beside the weights."
    return f"The weights and the overhead are {gigabytes(-plan.drafting.cache_bytes)} too large."


_VERDICTS: Final[Mapping[PlanOutcome, Callable[[DeploymentPlan], str]]] = {
    PlanOutcome.DOES_NOT_FIT: _lacks_room,
    PlanOutcome.REFUSED: lambda plan: plan.refusals[0],
}


def acceptance_basis(wanted: Wanted) -> str:
    """Return the acceptance that the speed-ups assume, in words."""
    if wanted.measured is not None:
        return "the observed acceptance"
    return f"the assumed acceptance of {wanted.acceptance:g}"


def _pays(plan: DeploymentPlan) -> str:
    """Return a warning if speculation does not pay at this acceptance."""
    depth, wanted = plan.depth, plan.wanted
    if depth.break_even_token_acceptance is None:
        return f"With {plural(wanted.tokens, 'token')} it never pays."
    at = acceptance_basis(wanted)
    if not plan.best_tokens:
        slow = f"{depth.speedup:.2f} times as fast with {wanted.tokens}"
        return f"At {at} no number of tokens pays: {slow}."
    if depth.speedup < 1:
        return f"At {at}, {plural(wanted.tokens, 'token')} do not pay: {depth.speedup:.2f} times as fast."
    return ""


def _needed(plan: DeploymentPlan) -> str:
    break_even = plan.depth.break_even_token_acceptance
    if break_even is None:
        return ""
    rate = acceptance_rate(break_even, plan.wanted.tokens)
    return f"It pays where more than {rate:.3f} of the draft tokens are accepted."


def _best(plan: DeploymentPlan) -> str:
    if plan.best_tokens in (0, plan.wanted.tokens):
        return ""
    return f"Best at {plural(plan.best_tokens, 'token')}."


@dataclass(frozen=True, slots=True)
class _Change:
    """Dtypes of target and draft, empty for no change, and whether the KV cache is in FP8."""

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
    """Return the smallest change that makes the models fit, and whether the target fits alone."""
    alone = _alone(plan)
    for change in _CHANGES:
        free = _room(plan, change)
        if free is not None and free.fits:
            subject = "It" if free.sequences is not None else "The weights"
            return f"{subject} would fit with {change.words}.{alone}"
    return f"Take more or larger GPUs, or a shorter --context.{alone}"


def _alone(plan: DeploymentPlan) -> str:
    """Return a sentence if the target fits without the draft."""
    if plan.wanted.draft is None or not plan.alone.fits:
        return ""
    return f" Without the draft {'the weights fit' if plan.alone.sequences is None else 'it fits'}."


def _room(plan: DeploymentPlan, change: _Change) -> Room | None:
    """Return the memory after a change; None for a change of a missing draft."""
    wanted = plan.wanted
    if change.draft and wanted.draft is None:
        return None
    parts = [_in(wanted.target, change.target)]
    parts += [] if wanted.draft is None else [_in(wanted.draft, change.draft)]
    return room(wanted.gpus, parts, wanted.context, 1 if change.small_cache else wanted.element_bytes)


def _in(part: MemoryPart, name: str) -> MemoryPart:
    """Return a model with its weights in another dtype, if that is smaller."""
    if not name or dtype_of(name).bits >= part.model.dtype.bits:
        return part
    dtype = dtype_of(name)
    size = min(part.model.parameters.weight_bytes(dtype), part.model.weight_bytes)
    return replace(part, model=replace(part.model, dtype=dtype, weight_bytes=size))
