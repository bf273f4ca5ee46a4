"""What vLLM refuses to start, however much memory there is. Each returns nothing where it does not."""

from __future__ import annotations

from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart


def refusals(method: str, target: MemoryPart, draft: MemoryPart | None) -> tuple[str, ...]:
    """Return why vLLM would not start with these models; empty where it would."""
    reasons = (
        heads(target, draft),
        vocabulary(method, target, draft),
        tensor_parallel(method, target, draft),
    )
    return tuple(reason for reason in reasons if reason)


def heads(target: MemoryPart, draft: MemoryPart | None) -> str:
    """Of attention heads every GPU must have as many."""
    odd = [part for part in (target, draft) if part is not None and _does_not_divide(part)]
    if not odd:
        return ""
    shape, over = odd[0].model.shape, odd[0].tensor_parallel
    number = 0 if shape is None else shape.attention_heads
    return f"{number} attention heads cannot be divided over {over} GPUs: vLLM refuses that."


def vocabulary(method: str, target: MemoryPart, draft: MemoryPart | None) -> str:
    """A draft model must have as many tokens as its target."""
    own, other = None if draft is None else draft.model.shape, target.model.shape
    if method != DRAFT_MODEL or own is None or other is None or own.vocab_size == other.vocab_size:
        return ""
    return (
        f"The draft has {own.vocab_size:,} tokens and the target {other.vocab_size:,}: vLLM refuses a draft "
        "model with another vocab_size. Models of one family may differ in it, padded by their size."
    )


def tensor_parallel(method: str, target: MemoryPart, draft: MemoryPart | None) -> str:
    """A draft model must be divided as its target is; a head may be on one GPU."""
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
