"""Report of a plan as text, which is Markdown too, and as JSON, with its warnings: names and texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.analysis.verdict import NOT_PAYING, Verdict
from spec_decode_exporter.core.number_formats import bounds, count, gigabytes, percent, plain, share
from spec_decode_exporter.costs.methods import DRAFT_MODEL
from spec_decode_exporter.plan.models import COMPARED, HEADS, SEARCHES
from spec_decode_exporter.plan.plans import DeploymentPlan, PlanOutcome, SpeedupPlan
from spec_decode_exporter.reports.text import TextStyle, bar, json_text, render
from spec_decode_exporter.views.verdict_text import SOURCES

_TONES: Final = {
    **dict.fromkeys((Verdict.UNCLEAR, PlanOutcome.TIGHT, PlanOutcome.WEIGHTS_FIT), "unsure"),
    **dict.fromkeys((*NOT_PAYING, PlanOutcome.DOES_NOT_FIT, PlanOutcome.REFUSED), "bad"),
}

_DRAFT_SHARE: Final = 0.15  # limit of the draft's weights, as a share of the memory of all GPUs


def as_json(plan: SpeedupPlan) -> str:
    """Return a plan as JSON with a final newline. Unknown numbers are null."""
    more = {"remedy": remedy(plan)} if isinstance(plan, DeploymentPlan) else {}
    cautions = [{"name": key, "text": text} for key, text in warnings(plan).items()]
    return json_text({**plan.model_dump(mode="json"), **more, "cautions": cautions})


def as_text(plan: SpeedupPlan, style: TextStyle) -> str:
    """Return a plan as text."""
    deployed = plan if isinstance(plan, DeploymentPlan) else None
    return render(
        "plan.md.jinja",
        style,
        "spec_decode_exporter.plan",
        plan=plan,
        deployed=deployed,
        tone=_TONES.get(plan.verdict if deployed is None else deployed.outcome, "good"),
        remedy=deployed and remedy(deployed),
        warnings=warnings(plan),
        searches=plan.method in SEARCHES,
        source=plan.cost and SOURCES[plan.cost.source],
        capacity=[] if deployed is None else list(_capacity(deployed)),
        chart=list(_chart(plan)),
    )


def remedy(plan: DeploymentPlan) -> str | None:
    """Return what makes models smaller, and whether the target fits alone; None if they fit."""
    if plan.outcome is not PlanOutcome.DOES_NOT_FIT:
        return None
    alone = " Without the draft it fits." if plan.draft and plan.without_draft.fits else ""
    return f"Take more or larger GPUs, weights or a KV cache of fewer bits, or a shorter --context.{alone}"


def _capacity(plan: DeploymentPlan) -> Iterator[tuple[str, ...]]:
    """Yield the memory with the draft and without it, and the difference; unknown rows are left out."""
    formats = {
        "weights": ("weight_bytes", gigabytes),
        "KV cache": ("kv_cache_bytes", gigabytes),
        "tokens in it": ("kv_cache_tokens", count),
        "sequences at a time": ("concurrent_sequences", count),
    }
    for title, (key, write) in formats.items():
        both, alone = getattr(plan.with_draft, key), getattr(plan.without_draft, key)
        if both is not None and alone is not None:
            yield title, write(both), write(alone), write(both - alone) if both != alone else ""


def _chart(plan: SpeedupPlan) -> Iterator[tuple[str, ...]]:
    """Yield the speed-up by number of draft tokens; that of none is 1. Nothing if the cost is unknown."""
    if not plan.depths:
        return
    largest = max(1.0, *(depth.speedup_ratio for depth in plan.depths))
    yield "0", "1.00", "", "", f"{bar(1 / largest)} no speculation"
    for depth in plan.depths:
        is_best = depth.tokens == plan.best_tokens
        marks = {"planned": depth.tokens == plan.draft_tokens, "best": is_best}
        drawn = bar(depth.speedup_ratio / largest)
        yield (
            f"**{depth.tokens}**" if is_best else str(depth.tokens),
            plain(depth.speedup_ratio),
            bounds(depth.speedup_ratio_lower, depth.speedup_ratio_upper),
            share(depth.acceptance_ratio),
            f"{drawn} {', '.join(mark for mark, holds in marks.items() if holds)}".rstrip(),
        )


def warnings(plan: SpeedupPlan) -> dict[str, str]:
    """Return the texts of the warnings by name."""
    return dict(_warnings(plan)) if isinstance(plan, DeploymentPlan) else {}


# fmt: off
def _warnings(plan: DeploymentPlan) -> Iterator[tuple[str, str]]:
    context, wanted, alone = plan.context_tokens, plan.wanted_sequences, plan.without_draft
    if plan.outcome is PlanOutcome.TIGHT:
        most, others = plan.with_draft.concurrent_sequences or 0, alone.concurrent_sequences or 0
        without = f"; without the draft {min(others, wanted):,} would" if others > most else ""
        yield "batch", f"Of {wanted:,} sequences of {context:,} tokens {most:,} fit at a time{without}. The others wait, or are preempted: that can cost more than drafting gains."
    for model in plan.models:
        if model.config and model.weights_counted and model.config.model_type not in COMPARED:
            yield "usual_shape", f"The weights of {model.config.model_type[:40]!r} are computed as those of a standard decoder, which may not fit: give the folder with its safetensors, or its number of parameters."
    draft, target = plan.draft, plan.target.config
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
