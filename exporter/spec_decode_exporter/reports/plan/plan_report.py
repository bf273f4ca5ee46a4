"""Report of a plan: one table of its sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.core.number_formats import gigabytes, plural
from spec_decode_exporter.reports.parts import EngineReport, Fact, Note, Report, ReportSection, Tone
from spec_decode_exporter.reports.parts import Part as ReportPart
from spec_decode_exporter.reports.plan import memory_sections, speed_sections
from spec_decode_exporter.reports.plan.deployment_plan import DeploymentPlan, Wanted
from spec_decode_exporter.reports.plan.draft_method import DRAFT_MODEL
from spec_decode_exporter.reports.plan.gpu_memory import GIGABYTE, MemoryPart
from spec_decode_exporter.reports.plan.headline import advice, verdict, word
from spec_decode_exporter.reports.plan.observed_models import ObservedModel
from spec_decode_exporter.reports.plan.plan_warnings import plan_warnings

_UNITS: Final = (("T", 10**12), ("B", 10**9), ("M", 10**6))
_ROUNDED: Final = 0.9995
"""Share of a unit that three digits round up to a whole one."""


def report(plan: DeploymentPlan) -> Report:
    """Return a plan as a report."""
    wanted, (outcome, tone) = plan.wanted, word(plan)
    drafter = wanted.method if wanted.draft is None else wanted.draft.model.name
    sections = (ReportSection(title, tuple(parts(plan))) for title, parts in _SECTIONS.items())
    engine = EngineReport(
        name=f"{drafter}, {plural(wanted.tokens, 'token')} at a time",
        place=f"{wanted.target.model.name} on {_gpus(wanted)}",
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
        f"{gpus.utilization:g} of their memory, less {gigabytes(gpus.overhead_bytes)} each for overhead",
    )
    if wanted.measured is not None:
        yield Fact("observed", _observed(wanted.measured), untrusted=True)
    yield Fact("load", f"{plural(wanted.batch, 'sequence')} of {wanted.context:,} tokens")


def _observed(model: ObservedModel) -> str:
    method = model.method or "method unknown"
    return (
        f"{model.model_name}, {method}, {plural(model.tokens, 'token')} at a time, "
        f"{model.acceptance:.3f} of them accepted, "
        f"{plural(model.engines, 'engine')} with {numbers.rate(model.tokens_per_second)} tokens a second"
        f"{' each' if model.engines > 1 else ''}"
    )


def _drafter(plan: DeploymentPlan) -> str:
    wanted = plan.wanted
    if wanted.draft is None:
        return f"{wanted.method}: a search, no weights"
    method = "" if wanted.method == DRAFT_MODEL else f", by {wanted.method}"
    return _described(wanted.draft) + method


def _described(part: MemoryPart) -> str:
    model = part.model
    weights = model.parameters
    experts = f" ({parameters(weights.active)} active)" if weights.experts else ""
    split = f", over {part.tensor_parallel} GPUs" if part.tensor_parallel > 1 else ""
    count = "" if model.shape is None else f", {parameters(weights.total)} parameters{experts}"
    return f"{model.name}{count}, {model.dtype.name}{split}"


def parameters(number: int) -> str:
    """Write the number of a model's weights: ``70.6B``, ``1B``, ``596M``."""
    unit, size = next((each for each in _UNITS if number >= _ROUNDED * each[1]), _UNITS[-1])
    return f"{number / size:.3g}{unit}"


def _engines(wanted: Wanted) -> str:
    gpus = _gpus(wanted)
    return gpus if wanted.engines == 1 else f"{wanted.engines} engines of {gpus}; the figures are of one"


def _gpus(wanted: Wanted) -> str:
    """Write the GPUs of one engine: ``4 x 80 GB``."""
    return f"{wanted.gpus.number} x {wanted.gpus.memory_bytes / GIGABYTE:.4g} GB"


def _cautions(plan: DeploymentPlan) -> Iterator[Note]:
    return (Note(each.text, each.name, Tone.BAD) for each in plan_warnings(plan))


_SECTIONS: Final[Mapping[str, Callable[[DeploymentPlan], Iterator[ReportPart]]]] = {
    "Missing data": memory_sections.missing,
    "Warnings": _cautions,
    "Weights": memory_sections.weights,
    "KV cache": memory_sections.cache,
    "Cost": speed_sections.cost,
    "Speed-up by number of draft tokens": speed_sections.depths,
    "Return on memory": speed_sections.payoff,
}
"""Title and builder of each section, in the order of the report."""
