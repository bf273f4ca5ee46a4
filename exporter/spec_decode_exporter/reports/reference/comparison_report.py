"""Report of a comparison with a reference: its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.reports.parts import (
    EngineReport,
    Fact,
    FigureTable,
    Note,
    Report,
    ReportSection,
    Tone,
)
from spec_decode_exporter.reports.reference import comparison_text
from spec_decode_exporter.reports.reference.comparison import Outcome
from spec_decode_exporter.reports.reference.comparison_tables import NOTE, tables
from spec_decode_exporter.reports.reference.pairing import Compared, EnginePair, ModelPair
from spec_decode_exporter.reports.reference_document import MeasuredModel, ReferenceDocument

_COLUMNS: Final = ("", "reference", "now", "change", "95 % of it")

_OUTCOMES: Final[Mapping[Outcome, tuple[str, Tone]]] = {
    Outcome.BETTER: ("better", Tone.GOOD),
    Outcome.SAME: ("same", Tone.GOOD),
    Outcome.LOWER: ("lower", Tone.FAIR),
    Outcome.FELL: ("fell", Tone.BAD),
    Outcome.UNCERTAIN: ("uncertain", Tone.NEUTRAL),
    Outcome.NOT_COMPARABLE: ("not comparable", Tone.NEUTRAL),
}


def report(compared: Compared) -> Report:
    """Return a comparison as a report, a part for each model."""
    return Report(
        "Acceptance compared with a reference",
        tuple(_missing(compared)),
        tuple(map(_model, compared.models)),
        facts=(Fact("reference", _measured(compared.before)), Fact("now", _measured(compared.after))),
        remarks=(Note(NOTE),) if compared.models else (),
    )


def _measured(document: ReferenceDocument) -> str:
    engines = plural(len(document.engines), "engine")
    return f"{document.ended:%Y-%m-%d %H:%M} UTC, {engines} over {format_duration(document.seconds)}"


def _missing(compared: Compared) -> Iterator[Note]:
    """Yield doubtful counters, and the models that only one side has."""
    for text in comparison_text.doubts(compared):
        yield Note(text, tone=Tone.BAD, untrusted=True)
    yield from (Note(f"Not there now: {_name(model)}.", untrusted=True) for model in compared.gone)
    yield from (Note(f"Not in the reference: {_name(model)}.", untrusted=True) for model in compared.new)


def _name(model: MeasuredModel) -> str:
    return f"{model.model_name} with {plural(model.measurement.tokens, 'draft token')}"


def _model(pair: ModelPair) -> EngineReport:
    comparison = pair.comparison
    word, tone = _OUTCOMES[comparison.outcome]
    sections = (
        ReportSection("Differences", tuple(_differences(pair))),
        *(
            ReportSection(table.title, (FigureTable(_COLUMNS, table.rows),))
            for table in tables(comparison)
            if table.rows
        ),
        ReportSection("Engines", tuple(_engines(pair.engines))),
    )
    change = comparison.acceptance
    return EngineReport(
        name=pair.after.model_name,
        place="",
        word=word,
        tone=tone,
        gist="" if change is None else f"{change.change * 100:+.1f} points",
        verdict=comparison_text.verdict(comparison),
        advice="",
        facts=(),
        sections=tuple(section for section in sections if section.parts),
    )


def _differences(pair: ModelPair) -> Iterator[Note]:
    """Yield changes of the setup, and conditions that make the comparison unfair."""
    for name, before, after in comparison_text.changes(pair.before, pair.after):
        yield Note(f"Changed: {name}, from {before or 'unknown'} to {after or 'unknown'}.", untrusted=True)
    if pair.before.engines != pair.after.engines:
        yield Note(f"Changed: number of engines, from {pair.before.engines} to {pair.after.engines}.")
    for caution in pair.comparison.cautions:
        yield Note(f"Not alike: {comparison_text.caution(caution)}", tone=Tone.BAD)


def _engines(pairs: Sequence[EnginePair]) -> Iterator[Note]:
    for pair in pairs:
        tone = Tone.BAD if pair.comparison.outcome is Outcome.FELL else Tone.NEUTRAL
        name = f"Engine {pair.after.engine} on {pair.after.target}"
        yield Note(comparison_text.verdict(pair.comparison), name, tone, untrusted=True)
