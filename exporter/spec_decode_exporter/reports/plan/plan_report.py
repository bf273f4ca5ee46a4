"""What a plan says to people: first whether it fits and from which acceptance on it pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.reports.parts import EngineReport, Fact, Note, Report, ReportSection, Tone
from spec_decode_exporter.reports.parts import Part as ReportPart
from spec_decode_exporter.reports.plan import memory_sections, plan_text, speed_sections
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, Wanted
from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL
from spec_decode_exporter.reports.plan.gpu_memory import MemoryPart
from spec_decode_exporter.reports.plan.headline import advice, verdict, word
from spec_decode_exporter.reports.plan.memory_sizes import gigabytes
from spec_decode_exporter.reports.plan.observed_models import ObservedModel
from spec_decode_exporter.reports.plan.plan_warnings import plan_warnings


def report(plan: DeploymentPlan) -> Report:
    """Return what is to be said of a plan."""
    wanted, (outcome, tone) = plan.wanted, word(plan)
    drafter = wanted.method if wanted.draft is None else wanted.draft.model.name
    sections = (ReportSection(title, tuple(parts(plan))) for title, parts in _SECTIONS.items())
    engine = EngineReport(
        name=f"{drafter}, {plan_text.tokens(wanted.tokens)} at a time",
        place=f"{wanted.target.model.name} on {plan_text.gpus(wanted)}",
        word=outcome,
        tone=tone,
        gist="",
        verdict=verdict(plan),
        advice=advice(plan),
        facts=tuple(_facts(plan)),
        sections=tuple(section for section in sections if section.parts),
    )
    return Report("Speculative decoding, a plan", (), (engine,), ())


def _facts(plan: DeploymentPlan) -> Iterator[Fact]:
    wanted, gpus = plan.wanted, plan.wanted.gpus
    yield Fact("target model", _described(wanted.target), untrusted=True)
    yield Fact("draft model", _drafter(plan), untrusted=wanted.draft is not None)
    yield Fact("GPUs", _engines(wanted))
    yield Fact(
        "taken",
        f"{gpus.utilisation:g} of their memory, less {gigabytes(gpus.overhead_bytes)} each for overhead",
    )
    if wanted.measured is not None:
        yield Fact("observed", _observed(wanted.measured), untrusted=True)
    yield Fact("load", f"{plan_text.sequences(wanted.batch)} of {wanted.context:,} tokens")


def _observed(seen: ObservedModel) -> str:
    method = seen.method or "method unknown"
    return (
        f"{seen.model_name}, {method}, {plan_text.tokens(seen.tokens)} at a time, "
        f"{seen.acceptance:.3f} of them accepted, "
        f"{plan_text.engines(seen.engines)} with {numbers.rate(seen.tokens_per_second)} tokens a second"
        f"{' each' if seen.engines > 1 else ''}"
    )


def _drafter(plan: DeploymentPlan) -> str:
    wanted = plan.wanted
    if wanted.draft is None:
        return f"{wanted.method}: a search, no weights"
    method = "" if wanted.method == DRAFT_MODEL else f", by {wanted.method}"
    return _described(wanted.draft) + method


def _described(part: MemoryPart) -> str:
    model = part.model
    own = model.parameters
    experts = f" ({plan_text.parameters(own.active)} active)" if own.experts else ""
    split = f", over {part.tensor_parallel} GPUs" if part.tensor_parallel > 1 else ""
    count = "" if model.shape is None else f", {plan_text.parameters(own.total)} parameters{experts}"
    return f"{model.name}{count}, {model.dtype.name}{split}"


def _engines(wanted: Wanted) -> str:
    gpus = plan_text.gpus(wanted)
    return gpus if wanted.engines == 1 else f"{wanted.engines} engines of {gpus}; what follows is of one"


def _cautions(plan: DeploymentPlan) -> Iterator[Note]:
    return (Note(each.text, each.name, Tone.BAD) for each in plan_warnings(plan))


_SECTIONS: Final[Mapping[str, Callable[[DeploymentPlan], Iterator[ReportPart]]]] = {
    "What is missing": memory_sections.missing,
    "Beware": _cautions,
    "Weights": memory_sections.weights,
    "KV cache": memory_sections.cache,
    "Cost": speed_sections.cost,
    "How many tokens to draft": speed_sections.depths,
    "Return": speed_sections.payoff,
}
"""The sections in their order."""
