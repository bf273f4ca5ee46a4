"""Sections of a plan about memory: missing data, weights and KV cache."""

from __future__ import annotations

from collections.abc import Iterator

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.core.number_formats import gigabytes
from spec_decode_exporter.reports.parts import Figure, Note, Part
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan
from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL
from spec_decode_exporter.reports.plan.gpu_memory import GIBIBYTE, GIGABYTE, Room
from spec_decode_exporter.reports.plan.plan_json import lost
from spec_decode_exporter.reports.plan.plan_warnings import PlanWarningName, plan_warnings


def missing(plan: DeploymentPlan) -> Iterator[Note]:
    """Yield missing data, and the flags that provide it."""
    draft = plan.wanted.draft
    if draft is not None and draft.model.guessed:
        yield Note(
            f"The size of the {draft.model.name} is a guess: typical for this target, in "
            f"{draft.model.dtype.name}. Give its config.json or its number of parameters: --draft."
        )
    unknown = [
        name
        for name, part in (("target", plan.wanted.target), ("draft", plan.wanted.draft))
        if part is not None and part.sequence_bytes(1, plan.wanted.context, plan.wanted.element_bytes) is None
    ]
    if unknown:
        flags = " and ".join(f"--{name}.kv-bytes-per-token" for name in unknown)
        yield Note(
            f"The size of a token in the KV cache is unknown for the {' and the '.join(unknown)}: a number "
            f"of parameters does not determine it. Give a config.json instead, or {flags}."
        )


def weights(plan: DeploymentPlan) -> Iterator[Part]:
    """Yield the size of the weights, and the memory that they leave."""
    wanted, gpus = plan.wanted, plan.wanted.gpus
    yield Figure("target", gigabytes(plan.alone.weight_bytes), "", _of_memory(plan, plan.alone.weight_bytes))
    if wanted.draft is not None:
        size = wanted.draft.model.weight_bytes
        yield Figure("draft", gigabytes(size), "", _of_memory(plan, size))
        both = plan.drafting.weight_bytes
        yield Figure("both", gigabytes(both), "", _of_memory(plan, both))
    yield Figure("left", gigabytes(plan.drafting.left_bytes), "", "of what the engine may take")
    ratio = plan.draft_ratio
    if ratio:
        typical = ", typical is 1:8 to 1:12" if wanted.method == DRAFT_MODEL else ""
        yield Figure("draft to target", f"1:{1 / ratio:.1f}", "", f"by active parameters{typical}")
    if gpus.is_decimal and PlanWarningName.GPU_MEMORY not in {each.name for each in plan_warnings(plan)}:
        yield Note(
            f"GB are 10^9 bytes: a GPU sold as {gpus.memory_bytes / GIGABYTE:g} GB may have 7 % more. Give "
            "--gpu-memory in MiB, as nvidia-smi says it."
        )


def _of_memory(plan: DeploymentPlan, size: int) -> str:
    return f"{100 * size / plan.wanted.gpus.all_bytes:.1f} % of all memory"


def _kilobytes(size: float | None) -> str:
    return numbers.ABSENT if size is None else f"{size / 1000:,.1f} kB"


def cache(plan: DeploymentPlan) -> Iterator[Figure]:
    """Yield the capacity of the KV cache with the draft and without it."""
    alone, drafting = plan.alone, plan.drafting
    rows = (
        ("size", _size(drafting), _size(alone), _less(plan)),
        ("GiB on a GPU", _gibibytes(plan, drafting), _gibibytes(plan, alone), ""),
        ("a token", _kilobytes(drafting.bytes_per_token), _kilobytes(alone.bytes_per_token), ""),
        ("tokens", numbers.count(drafting.tokens), numbers.count(alone.tokens), _lost("tokens", plan)),
        (
            "sequences at a time",
            numbers.count(drafting.sequences),
            numbers.count(alone.sequences),
            _lost("sequences", plan),
        ),
    )
    for name, value, without, less in rows:
        if value != numbers.ABSENT:
            yield Figure(name, value, "", f"{without} without the draft{less}")


def _size(room: Room) -> str:
    return gigabytes(room.cache_bytes) if room.cache_bytes > 0 else "none"


def _gibibytes(plan: DeploymentPlan, room: Room) -> str:
    """Write the KV cache of one GPU as vLLM logs it: "Available KV cache memory"."""
    if room.cache_bytes <= 0:
        return numbers.ABSENT
    return f"{room.cache_bytes / plan.wanted.gpus.number / GIBIBYTE:.1f}"


def _less(plan: DeploymentPlan) -> str:
    if plan.drafting.cache_bytes < 0:
        return f", {gigabytes(-plan.drafting.cache_bytes)} lacking"
    size = plan.alone.cache_bytes - plan.drafting.cache_bytes
    return f", {gigabytes(size)} less" if size else ""


def _lost(name: str, plan: DeploymentPlan) -> str:
    number = lost(getattr(plan.alone, name), getattr(plan.drafting, name))
    return f", {number:,} lost" if number else ""
