"""Write a report for a terminal, within its width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from spec_decode_exporter.reports.escape import cells, clipped, escaped, wrapped
from spec_decode_exporter.reports.parts import (
    Chart,
    EngineReport,
    Fact,
    Figure,
    FigureTable,
    Note,
    Part,
    Report,
    ReportSection,
    Tone,
)
from spec_decode_exporter.reports.terminal import TerminalStyle

_INDENT: Final = "  "
_GAP: Final = "  "
_MIN_BAR: Final = 10
_MAX_BAR: Final = 50
_MAX_PROSE: Final = 100
"""Maximum columns of a line of prose: longer lines are hard to read."""


def text_report(report: Report, style: TerminalStyle) -> str:
    """Return a report as lines with a final newline. Colors are its only escape sequences."""
    lines = [style.bold(line) for line in wrapped(report.title, style.width)]
    if report.facts:
        lines += _parts(report.facts, style)
    if report.missing:
        lines += ["", *_parts(report.missing, style)]
    if len(report.engines) > 1:
        lines += ["", *_overview(report.engines, style)]
    for engine in report.engines:
        lines += ["", *_engine(engine, style)]
    for section in report.requests:
        lines += ["", *_section(section, style)]
    if report.events:
        lines += ["", style.bold("Events"), *_parts(report.events, style)]
    if report.remarks:
        lines += ["", *_parts(report.remarks, style)]
    return "".join(f"{line}\n" for line in lines)


def _engine(engine: EngineReport, style: TerminalStyle) -> Iterator[str]:
    """Yield the lines about one engine, the verdict first."""
    yield style.faint(style.glyphs.line * style.width)
    yield from _heading(escaped(engine.name), escaped(engine.place), style)
    yield ""
    yield from _verdict(engine, style)
    if engine.facts:
        yield ""
        yield from _parts(engine.facts, style)
    for section in engine.sections:
        yield ""
        yield from _section(section, style)


def _heading(name: str, place: str, style: TerminalStyle) -> Iterator[str]:
    """Yield name and place on one line if they fit."""
    space = style.width - cells(name) - cells(place)
    if place and space >= len(_GAP):
        yield f"{style.bold(name)}{' ' * space}{style.faint(place)}"
        return
    yield style.bold(clipped(name, style.width, style.glyphs.ellipsis))
    if place:
        yield style.faint(clipped(place, style.width, style.glyphs.ellipsis))


def _verdict(engine: EngineReport, style: TerminalStyle) -> Iterator[str]:
    """Yield the badge with the verdict, and the advice below it."""
    indent = " " * (len(engine.word) + 3)
    first, *more = wrapped(engine.verdict, _line(style) - len(indent))
    yield f"{style.badge(engine.word, engine.tone)} {style.toned(first, engine.tone)}"
    yield from (f"{indent}{style.toned(line, engine.tone)}" for line in more)
    if engine.advice:
        lines = wrapped(engine.advice, _line(style) - len(indent))
        yield from (f"{indent}{style.bold(line)}" for line in lines)


def _overview(engines: Sequence[EngineReport], style: TerminalStyle) -> Iterator[str]:
    """Yield a line for each of several engines."""
    words, gists = (max(len(getattr(engine, column)) for engine in engines) for column in ("word", "gist"))
    for engine in engines:
        badge = style.badge(engine.word, engine.tone) + " " * (words - len(engine.word))
        gist = engine.gist.ljust(gists) + _GAP if gists else ""
        name = f"{escaped(engine.place)}{_GAP}{escaped(engine.name)}".strip()
        room = style.width - words - len(_GAP) - 1 - len(gist)
        yield f"{badge} {gist}{clipped(name, room, style.glyphs.ellipsis)}"


def _section(section: ReportSection, style: TerminalStyle) -> Iterator[str]:
    yield style.bold(section.title)
    yield from _parts(section.parts, style)


def _parts(parts: Sequence[Part], style: TerminalStyle) -> Iterator[str]:
    """Yield the lines of parts; adjacent parts of one kind share their columns."""
    for kind, group in groupby(parts, type):
        yield from _KINDS[kind](list(group), style)


def _facts(facts: Sequence[Fact], style: TerminalStyle) -> Iterator[str]:
    names = max(cells(fact.name) for fact in facts)
    for fact in facts:
        head = _INDENT + fact.name.ljust(names) + _GAP
        first, *more = wrapped(escaped(fact.text), _line(style) - len(head))
        yield f"{style.faint(head)}{first}"
        yield from (" " * len(head) + line for line in more)


def _figures(figures: Sequence[Figure], style: TerminalStyle) -> Iterator[str]:
    """Yield one figure a line; the meaning moves to its own line if the terminal is narrow."""
    names, values, bounds, meanings = (
        max(len(getattr(figure, column)) for figure in figures)
        for column in ("name", "value", "bounds", "meaning")
    )
    if _ends(names, values, bounds) > style.width:
        figures = [replace(each, bounds="", meaning=_joined(each.bounds, each.meaning)) for each in figures]
        bounds, meanings = 0, style.width
    beside = _ends(names, values, bounds, meanings) <= style.width
    for figure in figures:
        row = [style.faint(figure.name.ljust(names)), style.bold(figure.value.rjust(values))]
        row += [figure.bounds.ljust(bounds)] if bounds else []
        row += [style.faint(figure.meaning)] if beside else []
        yield _INDENT + _GAP.join(row).rstrip()
        if figure.meaning and not beside:
            yield from _indented(figure.meaning, 2 * len(_INDENT), style)


def _ends(*columns: int) -> int:
    """Return the end of the last column; columns without a width are omitted."""
    return len(_INDENT) + sum(len(_GAP) + width for width in columns if width) - len(_GAP)


def _joined(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def _figure_tables(tables: Sequence[FigureTable], style: TerminalStyle) -> Iterator[str]:
    for table in tables:
        yield from _figure_table(table, style)


def _figure_table(table: FigureTable, style: TerminalStyle) -> Iterator[str]:
    """Yield a table: names to the left, numbers to the right; names get own lines if it is too wide."""
    rows = (table.columns, *table.rows)
    names, *widths = (max(map(cells, column)) for column in zip(*rows, strict=True))
    beside = _ends(names, *widths) <= style.width
    for place, (name, *values) in enumerate(rows):
        aligned = _GAP.join(
            " " * (width - cells(value)) + value for value, width in zip(values, widths, strict=True)
        )
        if beside:
            line = f"{_INDENT}{name}{' ' * (names - cells(name))}{_GAP}{aligned}".rstrip()
            yield line if place else style.faint(line)
            continue
        yield from [_INDENT + name] if name else []
        line = 2 * _INDENT + aligned.rstrip()
        yield line if place else style.faint(line)


def _charts(charts: Sequence[Chart], style: TerminalStyle) -> Iterator[str]:
    for chart in charts:
        yield from _chart(chart, style)


def _chart(chart: Chart, style: TerminalStyle) -> Iterator[str]:
    """Yield rows of a label, its numbers, and a bar with a remark at its end."""
    labels = max(len(bar.label) for bar in chart.bars)
    widths = [
        max(len(column), *(len(bar.values[place]) for bar in chart.bars))
        for place, column in enumerate(chart.columns)
    ]
    begin = 2 * len(_INDENT) + labels + sum(len(_GAP) + width for width in widths) + len(_GAP)
    remarks = max(len(bar.remark) for bar in chart.bars)
    room = style.width - begin - remarks - 1
    beside = room >= _MIN_BAR
    room = min(room if beside else style.width - begin, _MAX_BAR)
    yield style.faint(_chart_head(chart, 2 * len(_INDENT) + labels, widths))
    for bar in chart.bars:
        mark = f"{style.glyphs.mark} " if bar.marked else _INDENT
        numbers = (value.rjust(width) for value, width in zip(bar.values, widths, strict=True))
        drawn = style.toned(style.bar(bar.share, room, guessed=bar.guessed), Tone.NEUTRAL)
        remark = f" {style.faint(bar.remark)}" if bar.remark and beside else ""
        line = _GAP.join([_INDENT + mark + bar.label.rjust(labels), *numbers, drawn + remark])
        yield line.rstrip()
        if bar.remark and not beside:
            yield from _indented(bar.remark, begin, style)


def _chart_head(chart: Chart, begin: int, widths: Sequence[int]) -> str:
    """Return the titles of the columns, aligned to the right unless the previous title overlaps."""
    head = _INDENT + chart.heading
    end = begin
    for column, width in zip(chart.columns, widths, strict=True):
        end += len(_GAP) + width
        head = f"{head.ljust(end - len(column) - 1)} {column}"
    return head


def _notes(notes: Sequence[Note], style: TerminalStyle) -> Iterator[str]:
    for note in notes:
        yield from _note(note, style)


def _note(note: Note, style: TerminalStyle) -> Iterator[str]:
    """Yield a note: its sign, its name and its text."""
    bad = note.tone is Tone.BAD
    sign = style.glyphs.warning if bad else style.glyphs.bullet
    name = f"{escaped(note.name)}:" if note.name else ""
    first, *more = wrapped(f"{name} {escaped(note.text)}", _line(style) - 2 * len(_INDENT))
    first = first.replace(name, style.bold(name), 1)
    yield f"{_INDENT}{style.toned(sign, note.tone) if bad else sign} {first}"
    yield from (2 * _INDENT + line for line in more)


def _indented(text: str, indent: int, style: TerminalStyle) -> Iterator[str]:
    return (" " * indent + style.faint(line) for line in wrapped(text, _line(style) - indent))


def _line(style: TerminalStyle) -> int:
    """Return the width of a line of prose."""
    return min(style.width, _MAX_PROSE)


_KINDS: Final[Mapping[type[Part], Callable[[Sequence[Any], TerminalStyle], Iterator[str]]]] = {
    Fact: _facts,
    Figure: _figures,
    FigureTable: _figure_tables,
    Chart: _charts,
    Note: _notes,
}
"""Writer of each kind of part."""
