"""Warnings about a plan: names, which JSON has, and texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.core.number_formats import percent
from spec_decode_exporter.costs.methods import DRAFT_MODEL
from spec_decode_exporter.plan.deployment_plan import DeploymentPlan, PlanOutcome
from spec_decode_exporter.plan.draft_head import HEADS
from spec_decode_exporter.plan.model_config import COMPARED
from spec_decode_exporter.plan.speedup_plan import SpeedupPlan

_DRAFT_SHARE: Final = 0.15
"""Limit of the draft's weights, as a share of the memory of all GPUs."""


def warnings(plan: SpeedupPlan) -> dict[str, str]:
    """Return the texts of the warnings by name."""
    return dict([*_of_memory(plan), *_of_draft(plan)]) if isinstance(plan, DeploymentPlan) else {}


# fmt: off
def _of_memory(plan: DeploymentPlan) -> Iterator[tuple[str, str]]:
    context, wanted, alone = plan.context_tokens, plan.wanted_sequences, plan.without_draft
    if plan.outcome is PlanOutcome.TIGHT:
        most, others = plan.with_draft.concurrent_sequences or 0, alone.concurrent_sequences or 0
        without = f"; without the draft {min(others, wanted):,} would" if others > most else ""
        yield "batch", f"Of {wanted:,} sequences of {context:,} tokens {most:,} fit at a time{without}. The others wait, or are preempted: that can cost more than drafting gains."
    for model in plan.models:
        if model.config and model.weights_counted and model.config.model_type not in COMPARED:
            yield "usual_shape", f"The weights of {model.config.model_type[:40]!r} are computed as those of a standard decoder, which may not fit: give the folder with its safetensors, or its number of parameters."


def _of_draft(plan: DeploymentPlan) -> Iterator[tuple[str, str]]:
    draft, target, context = plan.draft, plan.target.config, plan.context_tokens
    if draft is None:
        return
    share, config = draft.weight_bytes / (plan.gpus * plan.gpu_memory_bytes), draft.config
    if share > _DRAFT_SHARE:
        yield "draft_share", f"The draft takes {percent(share)} of the GPUs' memory, more than 15 %: take a smaller one."
    if plan.method == DRAFT_MODEL and plan.gpus > 1:
        yield "tensor_parallel", f"vLLM runs a draft model at the target's tensor parallelism: each of its short steps waits for all {plan.gpus} GPUs. Measured for 70B + 8B on 4 GPUs: 0.37 to 0.47 times as fast as without speculation. Prefer an EAGLE-3 or MTP head, or measure it first."
    if config and 0 < config.max_position_embeddings < context:  # vllm-project/vllm issues 48894 and 49343
        yield "draft_positions", f"The draft's max_position_embeddings is {config.max_position_embeddings:,}, and a sequence has {context:,} tokens: beyond it hardly a token is accepted. An EAGLE-3 head of 2,048 positions fell from 2.85 tokens a step to 1.14 at 7,400. Take a drafter that was trained for this context, or a shorter --context."
    width = (config.target_hidden_size or config.hidden_size) if config else 0
    if plan.method in HEADS and config and target and width != target.hidden_size:
        yield "other_width", f"The head is of a target whose hidden states are {width:,} wide, and these are {target.hidden_size:,}: is it another model's?"


# fmt: on
