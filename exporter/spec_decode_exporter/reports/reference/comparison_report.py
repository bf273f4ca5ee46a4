"""A comparison for people: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.reports.escape import cells, escaped
from spec_decode_exporter.reports.reference import comparison_text
from spec_decode_exporter.reports.reference.comparison_tables import NOTE, Table, tables
from spec_decode_exporter.reports.reference.pairing import Compared, EnginePair, ModelPair
from spec_decode_exporter.reports.reference.reference_document import MeasuredModel, ReferenceDocument

_HEAD: Final = ("", "reference", "now", "change", "95 % of it")


def text(compared: Compared) -> str:
    """Return a comparison for a terminal."""
    return "\n".join(_text(compared))


def markdown(compared: Compared) -> str:
    """Return a comparison as Markdown, as for a pull request."""
    return "\n".join(_markdown(compared))


def _text(compared: Compared) -> Iterator[str]:
    yield from (escaped(line) for line in _when(compared))
    for pair in compared.models:
        yield ""
        yield escaped(pair.after.model_name)
        yield f"  {comparison_text.verdict(pair.comparison)}"
        yield from (f"  {escaped(line)}" for line in _remarks(pair))
        for table in tables(pair.comparison):
            yield from _table(table)
        yield from (f"  {escaped(line)}" for line in map(_engine, pair.engines))
    yield ""
    yield from (escaped(line) for line in _endings(compared))


def _table(table: Table) -> Iterator[str]:
    """Yield the lines of a table: the first column to the left, the others to the right."""
    if not table.rows:
        return
    rows = [_HEAD, *(row.cells for row in table.rows)]
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    yield f"\n  {table.title}"
    for first, *others in rows:
        aligned = (_right(cell, width) for cell, width in zip(others, widths[1:], strict=True))
        yield f"    {first.ljust(widths[0])}  {'  '.join(aligned)}".rstrip()


def _right(cell: str, width: int) -> str:
    return " " * (width - cells(cell)) + cell


def _markdown(compared: Compared) -> Iterator[str]:
    yield "# Acceptance against a reference\n"
    yield from (_marked(line) for line in _when(compared))
    for pair in compared.models:
        yield f"\n## {_marked(pair.after.model_name)}\n"
        yield f"**{comparison_text.verdict(pair.comparison)}**\n"
        yield from (f"- {_marked(line)}" for line in _remarks(pair))
        for table in tables(pair.comparison):
            yield from _markdown_table(table)
        yield from _markdown_engines(pair.engines)
    yield ""
    yield from (f"- {_marked(line)}" for line in _endings(compared))


def _markdown_table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    yield f"\n| {table.title} | {' | '.join(_HEAD[1:])} |"
    yield "|---|" + "---:|" * (len(_HEAD) - 1)
    yield from (f"| {' | '.join(row.cells)} |" for row in table.rows)


def _markdown_engines(engines: Sequence[EnginePair]) -> Iterator[str]:
    if engines:
        yield "\nEngine by engine:\n"
        yield from (f"- {_marked(_engine(pair))}" for pair in engines)


def _when(compared: Compared) -> Iterator[str]:
    for name, document in (("Reference", compared.before), ("Now", compared.after)):
        yield f"{name + ':':<10} {_measured(document)}"


def _measured(document: ReferenceDocument) -> str:
    engines = f"{len(document.engines)} engine{'' if len(document.engines) == 1 else 's'}"
    return f"{document.ended:%Y-%m-%d %H:%M} UTC, {engines} over {format_duration(document.seconds)}"


def _remarks(pair: ModelPair) -> Iterator[str]:
    for name, then, now in comparison_text.changes(pair.before, pair.after):
        yield f"Changed: {name}, from {then or 'unknown'} to {now or 'unknown'}."
    if pair.before.engines != pair.after.engines:
        yield f"Changed: number of engines, from {pair.before.engines} to {pair.after.engines}."
    yield from (f"Not alike: {comparison_text.caution(found)}" for found in pair.comparison.cautions)


def _engine(pair: EnginePair) -> str:
    return f"Engine {pair.after.engine} on {pair.after.target}: {comparison_text.verdict(pair.comparison)}"


def _endings(compared: Compared) -> Iterator[str]:
    yield from comparison_text.troubles(compared.before.engines, "while the reference was measured")
    yield from comparison_text.troubles(compared.after.engines, "meanwhile")
    yield from (f"Not there now: {_name(model)}." for model in compared.gone)
    yield from (f"Not in the reference: {_name(model)}." for model in compared.new)
    if compared.models:
        yield NOTE


def _name(model: MeasuredModel) -> str:
    return f"{model.model_name} with {model.measurement.tokens} draft tokens"


_SPECIAL: Final = {ord(char): f"\\{char}" for char in "\\`*_{}[]<>#|~&$@"}


def _marked(line: str) -> str:
    """Return a text in which nothing means anything to Markdown or HTML."""
    return escaped(line).translate(_SPECIAL)
