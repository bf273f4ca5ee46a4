"""Reasons other than memory why vLLM refuses to start; empty if it starts."""

from __future__ import annotations

from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart


def refusals(method: str, target: MemoryPart, draft: MemoryPart | None) -> tuple[str, ...]:
    """Return the reasons why vLLM would not start with these models."""
    reasons = (
        heads(target, draft),
        vocabulary(method, target, draft),
        tensor_parallel(method, target, draft),
    )
    return tuple(reason for reason in reasons if reason)


def heads(target: MemoryPart, draft: MemoryPart | None) -> str:
    """Check that the attention heads divide evenly over the GPUs."""
    odd = [part for part in (target, draft) if part is not None and _does_not_divide(part)]
    if not odd:
        return ""
    shape, over = odd[0].model.shape, odd[0].tensor_parallel
    number = 0 if shape is None else shape.attention_heads
    return f"{number} attention heads cannot be divided over {over} GPUs: vLLM refuses that."


def vocabulary(method: str, target: MemoryPart, draft: MemoryPart | None) -> str:
    """Check that a draft model has the vocabulary size of its target."""
    draft_shape, target_shape = None if draft is None else draft.model.shape, target.model.shape
    if (
        method != DRAFT_MODEL
        or draft_shape is None
        or target_shape is None
        or draft_shape.vocab_size == target_shape.vocab_size
    ):
        return ""
    return (
        f"The draft has {draft_shape.vocab_size:,} tokens and the target {target_shape.vocab_size:,}: "
        "vLLM refuses a draft model with another vocab_size. Models of one family may differ in it, "
        "padded by their size."
    )


def tensor_parallel(method: str, target: MemoryPart, draft: MemoryPart | None) -> str:
    """Check that a draft model has the target's tensor parallel size; a head may have 1."""
    if draft is None or draft.tensor_parallel == target.tensor_parallel:
        return ""
    if method != DRAFT_MODEL and draft.tensor_parallel == 1:
        return ""
    allowed = "" if method == DRAFT_MODEL else "1 or "
    return (
        f"The draft's tensor parallel size is {draft.tensor_parallel} and the target's "
        f"{target.tensor_parallel}: vLLM takes {allowed}the target's only."
    )


def _does_not_divide(part: MemoryPart) -> bool:
    shape = part.model.shape
    return shape is not None and shape.attention_heads % part.tensor_parallel != 0
