"""What to beware of in a plan: ONE table of the warnings, each with when it holds and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from exporter.plan.memory import Part
from exporter.plan.method import DRAFT_MODEL
from exporter.plan.plan import Outcome, Plan

TARGET_SHARE: Final = 0.70
DRAFT_SHARE: Final = 0.15
"""Shares of all GPUs' memory."""
LARGEST_RATIO: Final = 1 / 8
SMALLEST_RATIO: Final = 1 / 12
"""The usual sizes of a draft model, in those of its target."""
COMPUTE_BOUND_TOKENS: Final = 256
"""Tokens of a step beyond which it begins to be bound by computing: an H100 does about 295
operations in 16 bits for each byte that it reads, and a weight is two of both."""


class CautionName(StrEnum):
    """What a warning is called."""

    TARGET_ALONE = "target_alone"
    TARGET_SHARE = "target_share"
    DRAFT_SHARE = "draft_share"
    VOCABULARY = "vocabulary"
    DRAFT_LARGER = "draft_larger"
    LARGE_DRAFT = "large_draft"
    SMALL_DRAFT = "small_draft"
    TENSOR_PARALLEL = "tensor_parallel"
    HEADS = "heads"
    BATCH = "batch"
    COMPUTE_BOUND = "compute_bound"
    NEVER_PAYS = "never_pays"
    OTHER_METHOD = "other_method"


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning."""

    name: CautionName
    text: str


def cautions(plan: Plan) -> tuple[Caution, ...]:
    """Return what to beware of, what keeps vLLM from starting first."""
    found = ((name, look(plan)) for name, look in _CAUTIONS.items())
    return tuple(Caution(name, text) for name, text in found if text)


def _target_alone(plan: Plan) -> str:
    if plan.alone.fits:
        return ""
    return "The target does not fit without a draft either: more GPUs, or fewer bits a weight."


def _target_share(plan: Plan) -> str:
    share = plan.alone.weight_bytes / plan.wanted.gpus.all_bytes
    if share <= TARGET_SHARE:
        return ""
    return (
        f"The target takes {100 * share:.0f} % of the GPUs' memory, more than {100 * TARGET_SHARE:.0f} %: "
        "little is left for KV cache and draft. Quantise it, or take more GPUs."
    )


def _draft_share(plan: Plan) -> str:
    draft, gpus = plan.wanted.draft, plan.wanted.gpus
    share = 0.0 if draft is None else draft.bytes_over(gpus.number) / gpus.all_bytes
    if share <= DRAFT_SHARE:
        return ""
    return (
        f"The draft takes {100 * share:.0f} % of the GPUs' memory, more than {100 * DRAFT_SHARE:.0f} %: "
        "take a smaller one."
    )


def _vocabulary(plan: Plan) -> str:
    draft, target = plan.wanted.draft, plan.wanted.target
    if draft is None or plan.wanted.method != DRAFT_MODEL:
        return ""
    own, other = draft.model.shape, target.model.shape
    if own is not None and other is not None and own.vocab_size != other.vocab_size:
        return (
            f"The draft has {own.vocab_size:,} tokens and the target {other.vocab_size:,}: vLLM refuses them "
            "unless both have one vocabulary."
        )
    known = {draft.model.vocabulary, target.model.vocabulary} - {None}
    if len(known) > 1:
        return "The tokenizers have different tokens: what the draft proposes means something else."
    return ""


def _draft_larger(plan: Plan) -> str:
    ratio = plan.draft_ratio
    if ratio is None or ratio < 1:
        return ""
    return "The draft is no smaller than the target: are the two swapped?"


def _large_draft(plan: Plan) -> str:
    ratio = plan.draft_ratio
    if ratio is None or plan.wanted.method != DRAFT_MODEL or not LARGEST_RATIO < ratio < 1:
        return ""
    return f"The draft is 1:{1 / ratio:.1f} of the target; usual is 1:8 to 1:12. A smaller one costs less."


def _small_draft(plan: Plan) -> str:
    ratio = plan.draft_ratio
    if ratio is None or plan.wanted.method != DRAFT_MODEL or ratio >= SMALLEST_RATIO:
        return ""
    return (
        f"The draft is 1:{1 / ratio:.0f} of the target; usual is 1:8 to 1:12. A small one is cheap, and more "
        "of its tokens are rejected: measure its acceptance."
    )


def _tensor_parallel(plan: Plan) -> str:
    draft, target = plan.wanted.draft, plan.wanted.target
    if draft is None or draft.tensor_parallel == target.tensor_parallel:
        return ""
    allowed = "" if plan.wanted.method == DRAFT_MODEL else "1 or "
    return (
        f"The draft's tensor parallel size is {draft.tensor_parallel} and the target's "
        f"{target.tensor_parallel}: vLLM takes {allowed}the target's. It is planned with a copy on each GPU "
        "or group of them."
    )


def _heads(plan: Plan) -> str:
    parts = [plan.wanted.target, *([] if plan.wanted.draft is None else [plan.wanted.draft])]
    odd = [part for part in parts if _does_not_divide(part)]
    if not odd:
        return ""
    shape, over = odd[0].model.shape, odd[0].tensor_parallel
    heads = 0 if shape is None else shape.attention_heads
    return f"{heads} attention heads cannot be divided over {over} GPUs: vLLM refuses that."


def _does_not_divide(part: Part) -> bool:
    shape = part.model.shape
    return shape is not None and shape.attention_heads % part.tensor_parallel != 0


def _batch(plan: Plan) -> str:
    wanted, most, alone = plan.wanted.batch, plan.drafting.sequences, plan.alone.sequences
    if plan.outcome is not Outcome.TIGHT or alone is None or most is None:
        return ""
    without = f"; without the draft {min(alone, wanted):,} would" if alone > most else ""
    return (
        f"Of {wanted:,} sequences of {plan.wanted.context:,} tokens {most:,} fit at a time{without}. The "
        "others wait, or are preempted: that can cost more than drafting gains."
    )


def _compute_bound(plan: Plan) -> str:
    tokens = plan.costs.reading.batch * (plan.wanted.tokens + 1)
    if tokens <= COMPUTE_BOUND_TOKENS:
        return ""
    return (
        f"A step verifies {tokens:,} tokens. From about {COMPUTE_BOUND_TOKENS} on GPUs are bound by "
        "computing and not by memory, and a draft token costs more than is estimated here."
    )


def _never_pays(plan: Plan) -> str:
    if plan.depth.break_even_token_acceptance is not None:
        return ""
    tokens = plan.wanted.tokens
    return f"With {tokens} draft tokens no acceptance is enough: drafting costs more than it can give."


def _other_method(plan: Plan) -> str:
    seen = plan.wanted.measured
    if seen is None or seen.method in ("", plan.wanted.method):
        return ""
    return f"The observation is not of {plan.wanted.method}: another drafter is accepted and costs otherwise."


_CAUTIONS: Final[Mapping[CautionName, Callable[[Plan], str]]] = {
    CautionName.TARGET_ALONE: _target_alone,
    CautionName.HEADS: _heads,
    CautionName.VOCABULARY: _vocabulary,
    CautionName.TENSOR_PARALLEL: _tensor_parallel,
    CautionName.DRAFT_LARGER: _draft_larger,
    CautionName.TARGET_SHARE: _target_share,
    CautionName.DRAFT_SHARE: _draft_share,
    CautionName.LARGE_DRAFT: _large_draft,
    CautionName.SMALL_DRAFT: _small_draft,
    CautionName.BATCH: _batch,
    CautionName.COMPUTE_BOUND: _compute_bound,
    CautionName.NEVER_PAYS: _never_pays,
    CautionName.OTHER_METHOD: _other_method,
}
"""Each returns nothing where there is nothing to beware of."""
