"""Report of a plan as text, which is Markdown too, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.analysis.verdict import NOT_PAYING, Verdict
from spec_decode_exporter.core.number_formats import bounds, count, gigabytes, plain, share
from spec_decode_exporter.plan.deployment_plan import DeploymentPlan, PlanOutcome
from spec_decode_exporter.plan.draft_head import SEARCHES
from spec_decode_exporter.plan.speedup_plan import SpeedupPlan
from spec_decode_exporter.plan.warnings import warnings
from spec_decode_exporter.reports.text import TextStyle, bar, json_text, render
from spec_decode_exporter.views.verdict_text import SOURCES

_TONES: Final = {
    **dict.fromkeys((Verdict.UNCLEAR, PlanOutcome.TIGHT, PlanOutcome.WEIGHTS_FIT), "unsure"),
    **dict.fromkeys((*NOT_PAYING, PlanOutcome.DOES_NOT_FIT, PlanOutcome.REFUSED), "bad"),
}


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
