"""Report of a plan: its warnings and remedy, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

from spec_decode_exporter.analysis.verdict import NOT_PAYING, Verdict
from spec_decode_exporter.core.number_formats import ABSENT, bounds, count, gigabytes, plain, plural, share
from spec_decode_exporter.costs.methods import DRAFT_MODEL, present_name
from spec_decode_exporter.reports.plan.checkpoint import SEARCHES
from spec_decode_exporter.reports.plan.deployment_plan import GIGABYTE, DeploymentPlan, PlanOutcome
from spec_decode_exporter.reports.plan.expected_speedup import PlannedDepth, SpeedupPlan
from spec_decode_exporter.reports.plan.model_sizes import HEADS, Model, dtype_of
from spec_decode_exporter.reports.text import TextStyle, bar, json_text, render
from spec_decode_exporter.views.verdict_text import SOURCES

_REAL_MEMORY: Final = 81_559 * 2**20 / (80 * GIGABYTE)
"""Memory of an H100 by nvidia-smi over its 80 GB. An H200 of 141 GB, 143771MiB, has the same ratio."""
_TARGET_SHARE, _DRAFT_SHARE, _CACHE_SHARE = 0.70, 0.15, 0.05
"""Limits, as shares of the memory of all GPUs."""
_UNITS: Final = (("T", 10**12), ("B", 10**9), ("M", 10**6))
_ROUNDED: Final = 0.9995
"""Share of a unit that three digits round up to a whole one."""
_TONES: Final = {Verdict.UNCLEAR: "unsure", **dict.fromkeys(NOT_PAYING, "bad")}
_CACHE: Final = "the KV cache in 8 bits (--kv-cache-dtype fp8)"


class _Change(NamedTuple):
    """Dtypes of target and draft, empty for no change, and bytes of an element of the KV cache."""

    words: str
    target: str = ""
    draft: str = ""
    element_bytes: int | None = None


_CHANGES: Final = (
    _Change("the draft in 8 bits", draft="int8"),
    _Change(_CACHE, element_bytes=1),
    _Change("the target in 8 bits", "int8"),
    _Change("both in 8 bits", "int8", "int8"),
    _Change("the target in 4 bits", "int4"),
    _Change("the target in 4 bits and the draft in 8", "int4", "int8"),
    _Change("both in 4 bits", "int4", "int4"),
    _Change(f"both in 4 bits and {_CACHE}", "int4", "int4", 1),
)
"""Changes that make models fit, the smallest first."""


def remedy(plan: DeploymentPlan) -> str | None:
    """Return the smallest change that makes the models fit, and whether the target fits alone; None if they fit."""
    if plan.outcome is not PlanOutcome.DOES_NOT_FIT:
        return None
    free, alone = plan.without_draft, ""
    if plan.draft_model is not None and free.fits:
        alone = f" Without the draft {'the weights fit' if free.concurrent_sequences is None else 'it fits'}."
    for change in (each for each in _CHANGES if plan.draft_model is not None or not each.draft):
        models = map(_in, plan.models, (change.target, change.draft))
        room = plan.room(*models, element_bytes=change.element_bytes)
        if room.fits:
            subject = "The weights" if room.concurrent_sequences is None else "It"
            return f"{subject} would fit with {change.words}.{alone}"
    return f"Take more or larger GPUs, or a shorter --context.{alone}"


def _in(model: Model, name: str) -> Model:
    """Return a model with its weights in another dtype, if that is smaller."""
    if not name or dtype_of(name).bits >= model.dtype.bits:
        return model
    dtype = dtype_of(name)
    return replace(
        model, dtype=dtype, weight_bytes=min(model.parameters.weight_bytes(dtype), model.weight_bytes)
    )


def acceptance_basis(plan: SpeedupPlan) -> str:
    """Return the acceptance that the speed-ups assume, in words."""
    return "the observed acceptance" if plan.observed else f"the assumed acceptance of {plan.acceptance:.3g}"


P = TypeVar("P")


class Rule(NamedTuple, Generic[P]):
    """Condition of a warning, and its text."""

    applies: Callable[[P], object]
    text: Callable[[P], str]


def _larger(plan: DeploymentPlan) -> str:
    """Return the result on GPUs with their real memory; empty for GPUs whose memory is exact, or without a change."""
    if not plan.is_decimal:
        return ""
    real = plan.changed(gpu_memory_bytes=round(plan.gpu_memory_bytes * _REAL_MEMORY))
    if (real.outcome, real.without_draft.fits) == (plan.outcome, plan.without_draft.fits):
        return ""
    then = {
        PlanOutcome.FITS: "it fits",
        PlanOutcome.TIGHT: "it fits, with fewer sequences at a time than are wanted",
        PlanOutcome.WEIGHTS_FIT: "the weights fit",
    }
    return then.get(real.outcome, "the target fits without a draft")


def _other_width(plan: DeploymentPlan) -> tuple[int, int] | None:
    """Return the widths of the hidden states that a head reads and that the target has, if they differ."""
    target, *heads = (model.config for model in plan.models)
    head = heads[0] if heads else None
    if plan.method not in HEADS or head is None or target is None:
        return None
    widths = head.target_hidden_size or head.hidden_size, target.hidden_size
    return widths if widths[0] != widths[1] else None


def _has_other_tokens(plan: DeploymentPlan) -> bool:
    """Return whether the tokenizers of target and draft model are known and differ."""
    return plan.method == DRAFT_MODEL and len({model.vocabulary for model in plan.models} - {None}) > 1


def _ratio(plan: DeploymentPlan, low: float, high: float) -> bool:
    """Return whether the size of a draft model, as a share of the target, is between two, both excluded."""
    ratio = plan.draft_to_target_ratio
    return ratio is not None and plan.method == DRAFT_MODEL and low < ratio < high


def _share(plan: DeploymentPlan, size: int) -> float:
    return size / plan.all_bytes


def _waiting(plan: DeploymentPlan) -> str:
    most, alone = plan.with_draft.concurrent_sequences or 0, plan.without_draft.concurrent_sequences or 0
    without = f"; without the draft {min(alone, plan.wanted_sequences):,} would" if alone > most else ""
    return f"Of {plan.wanted_sequences:,} sequences of {plan.context_tokens:,} tokens {most:,} fit at a time{without}. The others wait, or are preempted: that can cost more than drafting gains."


RULES: Final[Mapping[str, Rule[DeploymentPlan]]] = {
    "gpu_memory": Rule(_larger, lambda plan: f"GB are 10^9 bytes, and a GPU sold as {plan.gpu_memory_bytes / GIGABYTE:g} GB may have 7 % more. With that {_larger(plan)}: give --gpu-memory as nvidia-smi says it, such as 81559MiB."),
    "target_alone": Rule(
        lambda plan: not plan.without_draft.fits,
        lambda plan: "The target does not fit without a draft either: more GPUs, or fewer bits a weight."
        if plan.without_draft.kv_cache_bytes <= 0
        else f"Not one sequence of {plan.context_tokens:,} tokens fits without a draft either: a shorter --context, more GPUs, or a KV cache in 8 bits.",
    ),
    "heads": Rule(lambda plan: plan.odd_heads, lambda plan: plan.odd_heads),
    "vocabulary": Rule(lambda plan: plan.other_vocabulary or _has_other_tokens(plan), lambda plan: plan.other_vocabulary or "The tokenizers have different tokens: the target would misread the draft."),
    "other_width": Rule(_other_width, lambda plan: "The head is of a target whose hidden states are {:,} wide, and these are {:,}: is it another model's?".format(*_other_width(plan) or (0, 0))),
    "draft_larger": Rule(lambda plan: (plan.draft_to_target_ratio or 0) >= 1, lambda _: "The draft is no smaller than the target: are the two swapped?"),
    "target_share": Rule(lambda plan: _share(plan, plan.target.weight_bytes) > _TARGET_SHARE, lambda plan: f"The target takes {100 * _share(plan, plan.target.weight_bytes):.0f} % of the GPUs' memory, more than 70 %: little is left for KV cache and draft. Quantize it, or take more GPUs."),
    "draft_share": Rule(lambda plan: plan.draft and _share(plan, plan.draft.weight_bytes) > _DRAFT_SHARE, lambda plan: f"The draft takes {100 * _share(plan, plan.draft.weight_bytes if plan.draft else 0):.0f} % of the GPUs' memory, more than 15 %: take a smaller one."),
    "large_draft": Rule(lambda plan: _ratio(plan, 1 / 8, 1), lambda plan: f"The draft is 1:{min(1 / (plan.draft_to_target_ratio or 1), 7.9):.1f} of the target; typical is 1:8 to 1:12. A smaller one costs less."),
    "small_draft": Rule(lambda plan: _ratio(plan, 0, 1 / 12), lambda plan: f"The draft is 1:{max(1 / (plan.draft_to_target_ratio or 1), 12.1):.1f} of the target; typical is 1:8 to 1:12. A small one is cheap, and more of its tokens are rejected: measure its acceptance."),
    "batch": Rule(lambda plan: plan.outcome is PlanOutcome.TIGHT and plan.without_draft.concurrent_sequences is not None, _waiting),
    "little_cache": Rule(lambda plan: plan.outcome is PlanOutcome.WEIGHTS_FIT and _share(plan, plan.with_draft.kv_cache_bytes) < _CACHE_SHARE, lambda plan: f"{gigabytes(plan.with_draft.kv_cache_bytes)} of KV cache, {100 * _share(plan, plan.with_draft.kv_cache_bytes):.1f} % of the GPUs' memory, are little to serve from."),
}  # fmt: skip
"""Warnings about models and memory by name; reasons why vLLM would not start come first."""
SPEED_RULES: Final[Mapping[str, Rule[SpeedupPlan]]] = {
    "never_pays": Rule(lambda plan: plan.depth is not None and plan.depth.break_even_token_acceptance_ratio is None, lambda plan: f"With {plural(plan.draft_tokens, 'token')} at a time no acceptance is enough: drafting costs more than it can give."),
    "loses": Rule(
        lambda plan: plan.depth is not None and plan.depth.speedup_ratio < 1 and plan.depth.break_even_token_acceptance_ratio is not None,
        lambda plan: f"At {acceptance_basis(plan)}, {plural(plan.draft_tokens, 'token')} at a time make it slower, {plan.speedup_ratio:.2f} times as fast as without: "
        + (f"draft {plural(plan.best_tokens, 'token')} at a time." if plan.best_tokens else "do not speculate."),
    ),
    "other_method": Rule(
        lambda plan: plan.observed and present_name(plan.observed.method) != plan.method,
        lambda plan: f"The observation is not of {plan.method}: another drafter is accepted and costs otherwise."
        if plan.observed and plan.observed.method
        else f"The method of the observation is unknown. The plan assumes {plan.method}.",
    ),
}  # fmt: skip
"""Warnings about the speed-up by name."""


def warnings(plan: SpeedupPlan) -> dict[str, str]:
    """Return the texts of the warnings by name."""
    found = {}
    if isinstance(plan, DeploymentPlan):
        found = {name: rule.text(plan) for name, rule in RULES.items() if rule.applies(plan)}
    return found | {name: rule.text(plan) for name, rule in SPEED_RULES.items() if rule.applies(plan)}


def as_json(plan: SpeedupPlan) -> str:
    """Return a plan as JSON with a final newline. Unknown numbers are null."""
    more = {"remedy": remedy(plan)} if isinstance(plan, DeploymentPlan) else {}
    cautions = [{"name": name, "text": text} for name, text in warnings(plan).items()]
    return json_text({**plan.model_dump(mode="json"), **more, "cautions": cautions})


def as_text(plan: SpeedupPlan, style: TextStyle) -> str:
    """Return a plan as text, which is Markdown too."""
    known: dict[str, object] = {
        "plan": plan,
        "observed": plan.observed,
        "basis": acceptance_basis(plan),
        "warnings": warnings(plan),
        "searches": plan.method in SEARCHES,
        "source": plan.cost_source and SOURCES[plan.cost_source],
        "chart": list(_chart(plan, style)),
        "needed": _needed,
    }
    if not isinstance(plan, DeploymentPlan):
        return render("plan.md.jinja", style, **known, tone=_TONES.get(plan.verdict, "good"))
    tones = {
        PlanOutcome.FITS: "good" if plan.best_tokens else "unsure",
        PlanOutcome.TIGHT: "unsure",
        PlanOutcome.WEIGHTS_FIT: "unsure",
    }
    return render(
        "deployment_plan.md.jinja",
        style,
        **known,
        tone=tones.get(plan.outcome, "bad"),
        remedy=remedy(plan),
        unknown=[
            name
            for name, model in zip(("target", "draft"), plan.models, strict=False)
            if plan.sequence_bytes(model) is None
        ],
        capacity=list(_capacity(plan)),
        parameters=parameters_text,
    )


def parameters_text(number: int) -> str:
    """Write the number of a model's weights: ``70.6B``, ``1B``, ``596M``."""
    unit, size = next((each for each in _UNITS if number >= _ROUNDED * each[1]), _UNITS[-1])
    return f"{number / size:.3g}{unit}"


def _capacity(plan: DeploymentPlan) -> Iterator[tuple[str, ...]]:
    """Yield the capacity of the KV cache with the draft and without it, and the difference."""
    rooms, lost = (plan.with_draft, plan.without_draft), plan.lost
    sizes = [max(room.kv_cache_bytes, 0) for room in rooms]
    lacking, less = max(-plan.with_draft.kv_cache_bytes, 0), lost["kv_cache_bytes"]
    moved = f"{gigabytes(lacking)} lacking" if lacking else less and gigabytes(less)
    yield "size", *(gigabytes(size) if size else "none" for size in sizes), moved or ""
    if sizes[0]:
        yield "GiB on a GPU", *(f"{size / plan.gpus / 2**30:.1f}" for size in sizes), ""
    if plan.with_draft.kv_cache_bytes_per_token is not None:
        yield "a token", *(f"{(room.kv_cache_bytes_per_token or 0) / 1000:,.1f} kB" for room in rooms), ""
        for title, key in (("tokens", "kv_cache_tokens"), ("sequences at a time", "concurrent_sequences")):
            yield title, *(count(getattr(room, key)) for room in rooms), count(lost[key]) if lost[key] else ""


def _chart(plan: SpeedupPlan, style: TextStyle) -> Iterator[tuple[str, ...]]:
    """Yield the speed-up by number of draft tokens; that of none is 1. Nothing if the cost is unknown."""
    if not plan.depths:
        return
    largest = max(1.0, *(depth.speedup_ratio for depth in plan.depths))
    yield _marked(plan, 0), "1.00", "", "", f"{bar(1 / largest, style)} no speculation"
    for its in plan.depths:
        guessed = plan.observed is not None and not its.measured
        remarks = {
            "planned": its.tokens == plan.draft_tokens,
            "best": its.tokens == plan.best_tokens,
            "extrapolated": guessed,
        }
        drawn = bar(its.speedup_ratio / largest, style, guessed=guessed)
        yield (
            _marked(plan, its.tokens),
            plain(its.speedup_ratio),
            bounds(its.speedup_ratio_lower, its.speedup_ratio_upper),
            share(its.acceptance_ratio),
            f"{drawn} {', '.join(remark for remark, holds in remarks.items() if holds)}".rstrip(),
        )


def _marked(plan: SpeedupPlan, tokens: int) -> str:
    return f"**{tokens}**" if tokens == plan.best_tokens else str(tokens)


def _needed(depth: PlannedDepth) -> str:
    """Write the acceptance rate at break-even if each token has the same acceptance."""
    least, tokens = depth.break_even_token_acceptance_ratio, depth.tokens
    return (
        ABSENT if least is None else share(sum(least**position for position in range(1, tokens + 1)) / tokens)
    )
