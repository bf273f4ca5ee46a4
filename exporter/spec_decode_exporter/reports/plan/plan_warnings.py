"""Warnings of a plan: one table of their names and conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from spec_decode_exporter.core.number_formats import gigabytes, plural
from spec_decode_exporter.reports.plan import vllm_refusals
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, PlanOutcome
from spec_decode_exporter.reports.plan.deployment_plan import plan as plan_of
from spec_decode_exporter.reports.plan.draft_head import HEADS
from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL
from spec_decode_exporter.reports.plan.gpu_memory import GIGABYTE
from spec_decode_exporter.reports.plan.headline import acceptance_basis

TARGET_SHARE: Final = 0.70
DRAFT_SHARE: Final = 0.15
CACHE_SHARE: Final = 0.05
"""Limits, as shares of the memory of all GPUs."""
MAX_RATIO: Final = 1 / 8
MIN_RATIO: Final = 1 / 12
"""Typical sizes of a draft model, as shares of its target."""
_LARGER: Final = 7.9
_SMALLER: Final = 12.1
"""Nearest sizes outside the typical range, with one decimal."""
REAL_MEMORY: Final = 81_559 * 2**20 / (80 * GIGABYTE)
"""Memory of an H100 by nvidia-smi over its 80 GB. An H200 of 141 GB, 143771MiB, has the same ratio."""
COMPUTE_BOUND_TOKENS: Final = 256
"""Tokens of a step above which computing bounds it: an H100 does about 295 operations in 16 bits for each
byte that it reads, and a weight needs two of both."""


_THEN: Final[Mapping[PlanOutcome, str]] = {
    PlanOutcome.FITS: "it fits",
    PlanOutcome.TIGHT: "it fits, with fewer sequences at a time than are wanted",
    PlanOutcome.WEIGHTS_FIT: "the weights fit",
}


class PlanWarningName(StrEnum):
    """Name of a warning."""

    GPU_MEMORY = "gpu_memory"
    TARGET_ALONE = "target_alone"
    TARGET_SHARE = "target_share"
    DRAFT_SHARE = "draft_share"
    VOCABULARY = "vocabulary"
    OTHER_WIDTH = "other_width"
    DRAFT_LARGER = "draft_larger"
    LARGE_DRAFT = "large_draft"
    SMALL_DRAFT = "small_draft"
    HEADS = "heads"
    BATCH = "batch"
    LITTLE_CACHE = "little_cache"
    COMPUTE_BOUND = "compute_bound"
    NEVER_PAYS = "never_pays"
    LOSES = "loses"
    OTHER_METHOD = "other_method"


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """Name and text of a warning."""

    name: PlanWarningName
    text: str


def plan_warnings(plan: DeploymentPlan) -> tuple[PlanWarning, ...]:
    """Return the warnings; reasons why vLLM would not start come first."""
    texts = ((name, warn(plan)) for name, warn in _WARNINGS.items())
    return tuple(PlanWarning(name, text) for name, text in texts if text)


def _gpu_memory(plan: DeploymentPlan) -> str:
    gpus = plan.wanted.gpus
    if not gpus.is_decimal:
        return ""
    larger = replace(gpus, memory_bytes=round(gpus.memory_bytes * REAL_MEMORY))
    real = plan_of(replace(plan.wanted, gpus=larger))
    if (real.outcome, real.alone.fits) == (plan.outcome, plan.alone.fits):
        return ""
    then = _THEN.get(real.outcome, "the target fits without a draft")
    return (
        f"GB are 10^9 bytes, and a GPU sold as {gpus.memory_bytes / GIGABYTE:g} GB may have 7 % more. "
        f"With that {then}: give --gpu-memory as nvidia-smi says it, such as 81559MiB."
    )


def _target_alone(plan: DeploymentPlan) -> str:
    if plan.alone.fits:
        return ""
    if plan.alone.cache_bytes <= 0:
        return "The target does not fit without a draft either: more GPUs, or fewer bits a weight."
    return (
        f"Not one sequence of {plan.wanted.context:,} tokens fits without a draft either: a shorter "
        "--context, more GPUs, or a KV cache in 8 bits."
    )


def _target_share(plan: DeploymentPlan) -> str:
    share = plan.alone.weight_bytes / plan.wanted.gpus.all_bytes
    if share <= TARGET_SHARE:
        return ""
    return (
        f"The target takes {100 * share:.0f} % of the GPUs' memory, more than {100 * TARGET_SHARE:.0f} %: "
        "little is left for KV cache and draft. Quantize it, or take more GPUs."
    )


def _draft_share(plan: DeploymentPlan) -> str:
    draft, gpus = plan.wanted.draft, plan.wanted.gpus
    share = 0.0 if draft is None else draft.model.weight_bytes / gpus.all_bytes
    if share <= DRAFT_SHARE:
        return ""
    return (
        f"The draft takes {100 * share:.0f} % of the GPUs' memory, more than {100 * DRAFT_SHARE:.0f} %: "
        "take a smaller one."
    )


def _vocabulary(plan: DeploymentPlan) -> str:
    method, target, draft = plan.wanted.method, plan.wanted.target, plan.wanted.draft
    if refused := vllm_refusals.vocabulary(method, target, draft):
        return refused
    if draft is None or method != DRAFT_MODEL:
        return ""
    if len({draft.model.vocabulary, target.model.vocabulary} - {None}) > 1:
        return "The tokenizers have different tokens: the target would misread the draft."
    return ""


def _other_width(plan: DeploymentPlan) -> str:
    draft, target = plan.wanted.draft, plan.wanted.target.model.shape
    head = None if draft is None else draft.model.config
    if plan.wanted.method not in HEADS or head is None or target is None:
        return ""
    width = head.number("target_hidden_size", head.positive("hidden_size"))
    if width == target.hidden_size:
        return ""
    return (
        f"The head is of a target whose hidden states are {width:,} wide, and these are "
        f"{target.hidden_size:,}: is it another model's?"
    )


def _draft_larger(plan: DeploymentPlan) -> str:
    ratio = plan.draft_ratio
    if ratio is None or ratio < 1:
        return ""
    return "The draft is no smaller than the target: are the two swapped?"


def _large_draft(plan: DeploymentPlan) -> str:
    ratio = plan.draft_ratio
    if ratio is None or plan.wanted.method != DRAFT_MODEL or not MAX_RATIO < ratio < 1:
        return ""
    times = min(1 / ratio, _LARGER)
    return f"The draft is 1:{times:.1f} of the target; typical is 1:8 to 1:12. A smaller one costs less."


def _small_draft(plan: DeploymentPlan) -> str:
    ratio = plan.draft_ratio
    if ratio is None or plan.wanted.method != DRAFT_MODEL or ratio >= MIN_RATIO:
        return ""
    return (
        f"The draft is 1:{max(1 / ratio, _SMALLER):.1f} of the target; typical is 1:8 to 1:12. A small one "
        "is cheap, and more of its tokens are rejected: measure its acceptance."
    )


def _heads(plan: DeploymentPlan) -> str:
    return vllm_refusals.heads(plan.wanted.target, plan.wanted.draft)


def _batch(plan: DeploymentPlan) -> str:
    wanted, most, alone = plan.wanted.batch, plan.drafting.sequences, plan.alone.sequences
    if plan.outcome is not PlanOutcome.TIGHT or alone is None or most is None:
        return ""
    without = f"; without the draft {min(alone, wanted):,} would" if alone > most else ""
    return (
        f"Of {wanted:,} sequences of {plan.wanted.context:,} tokens {most:,} fit at a time{without}. The "
        "others wait, or are preempted: that can cost more than drafting gains."
    )


def _little_cache(plan: DeploymentPlan) -> str:
    size = plan.drafting.cache_bytes
    share = size / plan.wanted.gpus.all_bytes
    if plan.outcome is not PlanOutcome.WEIGHTS_FIT or share >= CACHE_SHARE:
        return ""
    return (
        f"{gigabytes(size)} of KV cache, {100 * share:.1f} % of the GPUs' memory, are little to serve from."
    )


def _compute_bound(plan: DeploymentPlan) -> str:
    tokens = plan.costs.reading.batch * (plan.wanted.tokens + 1)
    if tokens <= COMPUTE_BOUND_TOKENS:
        return ""
    return (
        f"A step verifies {tokens:,} tokens. From about {COMPUTE_BOUND_TOKENS} on computing bounds "
        "GPUs, not memory, and a draft token costs more than is estimated here."
    )


def _never_pays(plan: DeploymentPlan) -> str:
    if plan.depth.break_even_token_acceptance is not None:
        return ""
    tokens = plural(plan.wanted.tokens, "token")
    return f"With {tokens} at a time no acceptance is enough: drafting costs more than it can give."


def _loses(plan: DeploymentPlan) -> str:
    speedup, wanted = plan.depth.speedup, plan.wanted
    if speedup >= 1 or plan.depth.break_even_token_acceptance is None:
        return ""
    instead = (
        f"draft {plural(plan.best_tokens, 'token')} at a time" if plan.best_tokens else "do not speculate"
    )
    return (
        f"At {acceptance_basis(wanted)}, {plural(wanted.tokens, 'token')} at a time make it slower, "
        f"{speedup:.2f} times as fast as without: {instead}."
    )


def _other_method(plan: DeploymentPlan) -> str:
    observed = plan.wanted.measured
    if observed is None or observed.method == plan.wanted.method:
        return ""
    if not observed.method:
        return f"The method of the observation is unknown. The plan assumes {plan.wanted.method}."
    return f"The observation is not of {plan.wanted.method}: another drafter is accepted and costs otherwise."


_WARNINGS: Final[Mapping[PlanWarningName, Callable[[DeploymentPlan], str]]] = {
    PlanWarningName.GPU_MEMORY: _gpu_memory,
    PlanWarningName.TARGET_ALONE: _target_alone,
    PlanWarningName.HEADS: _heads,
    PlanWarningName.VOCABULARY: _vocabulary,
    PlanWarningName.OTHER_WIDTH: _other_width,
    PlanWarningName.DRAFT_LARGER: _draft_larger,
    PlanWarningName.TARGET_SHARE: _target_share,
    PlanWarningName.DRAFT_SHARE: _draft_share,
    PlanWarningName.LARGE_DRAFT: _large_draft,
    PlanWarningName.SMALL_DRAFT: _small_draft,
    PlanWarningName.BATCH: _batch,
    PlanWarningName.LITTLE_CACHE: _little_cache,
    PlanWarningName.COMPUTE_BOUND: _compute_bound,
    PlanWarningName.NEVER_PAYS: _never_pays,
    PlanWarningName.LOSES: _loses,
    PlanWarningName.OTHER_METHOD: _other_method,
}
"""Function of each warning; it returns an empty text if the warning does not apply."""
