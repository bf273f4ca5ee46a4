"""Reasons other than memory why vLLM refuses to start; empty if it starts."""

from __future__ import annotations

from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart


def refusals(method: str, target: MemoryPart, draft: MemoryPart | None) -> tuple[str, ...]:
    """Return the reasons why vLLM would not start with these models."""
    reasons = (
        heads(target, draft),
        vocabulary(method, target, draft),
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


def _does_not_divide(part: MemoryPart) -> bool:
    shape = part.model.shape
    return shape is not None and shape.attention_heads % part.tensor_parallel != 0
