"""A report for a terminal, in as many columns as it has."""

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
    Note,
    Part,
    Report,
    ReportSection,
    Tone,
)
from spec_decode_exporter.reports.terminal import Paint

_INDENT: Final = "  "
_GAP: Final = "  "
_LEAST_BAR: Final = 10
_MOST_BAR: Final = 50
_BEST_READ: Final = 100
"""Columns beyond which a line of text is hard to read."""


def text_report(report: Report, paint: Paint) -> str:
    """Return a report as lines; it ends with a line's end. Nothing in it acts on a terminal but colours."""
    lines = [paint.bold(line) for line in wrapped(report.title, paint.width)]
    if report.unseen:
        lines += ["", *_parts(report.unseen, paint)]
    if len(report.engines) > 1:
        lines += ["", *_overview(report.engines, paint)]
    for engine in report.engines:
        lines += ["", *_engine(engine, paint)]
    for section in report.requests:
        lines += ["", *_section(section, paint)]
    if report.events:
        lines += ["", paint.bold("What happened"), *_parts(report.events, paint)]
    return "".join(f"{line}\n" for line in lines)


def _engine(engine: EngineReport, paint: Paint) -> Iterator[str]:
    """Yield the lines about one engine: first what it comes to."""
    yield paint.faint(paint.glyphs.line * paint.width)
    yield from _heading(escaped(engine.name), escaped(engine.place), paint)
    yield ""
    yield from _said(engine, paint)
    yield ""
    yield from _parts(engine.facts, paint)
    for section in engine.sections:
        yield ""
        yield from _section(section, paint)


def _heading(name: str, place: str, paint: Paint) -> Iterator[str]:
    """Yield both in one line where they fit into one."""
    space = paint.width - cells(name) - cells(place)
    if space >= len(_GAP):
        yield f"{paint.bold(name)}{' ' * space}{paint.faint(place)}"
        return
    yield paint.bold(clipped(name, paint.width, paint.glyphs.ellipsis))
    yield paint.faint(clipped(place, paint.width, paint.glyphs.ellipsis))


def _said(engine: EngineReport, paint: Paint) -> Iterator[str]:
    """Yield the verdict behind its badge, and the advice below it."""
    indent = " " * (len(engine.word) + 3)
    first, *more = wrapped(engine.verdict, _line(paint) - len(indent))
    yield f"{paint.badge(engine.word, engine.tone)} {paint.toned(first, engine.tone)}"
    yield from (f"{indent}{paint.toned(line, engine.tone)}" for line in more)
    yield from (f"{indent}{paint.bold(line)}" for line in wrapped(engine.advice, _line(paint) - len(indent)))


def _overview(engines: Sequence[EngineReport], paint: Paint) -> Iterator[str]:
    """Yield a line for each of several engines."""
    words, gists = (max(len(getattr(engine, column)) for engine in engines) for column in ("word", "gist"))
    for engine in engines:
        badge = paint.badge(engine.word, engine.tone) + " " * (words - len(engine.word))
        gist = engine.gist.ljust(gists) + _GAP if gists else ""
        name = f"{escaped(engine.place)}{_GAP}{escaped(engine.name)}"
        room = paint.width - words - len(_GAP) - 1 - len(gist)
        yield f"{badge} {gist}{clipped(name, room, paint.glyphs.ellipsis)}"


def _section(section: ReportSection, paint: Paint) -> Iterator[str]:
    yield paint.bold(section.title)
    yield from _parts(section.parts, paint)


def _parts(parts: Sequence[Part], paint: Paint) -> Iterator[str]:
    """Yield the lines of parts; those of a kind that follow each other share their columns."""
    for kind, group in groupby(parts, type):
        yield from _KINDS[kind](list(group), paint)


def _facts(facts: Sequence[Fact], paint: Paint) -> Iterator[str]:
    names = max(cells(fact.name) for fact in facts)
    for fact in facts:
        head = _INDENT + fact.name.ljust(names) + _GAP
        first, *more = wrapped(escaped(fact.text), _line(paint) - len(head))
        yield f"{paint.faint(head)}{first}"
        yield from (" " * len(head) + line for line in more)


def _figures(figures: Sequence[Figure], paint: Paint) -> Iterator[str]:
    """Yield figures below each other; what they mean moves below them where there is no room beside."""
    names, values, bounds, meanings = (
        max(len(getattr(figure, column)) for figure in figures)
        for column in ("name", "value", "bounds", "meaning")
    )
    if _ends(names, values, bounds) > paint.width:
        figures = [replace(each, bounds="", meaning=_joined(each.bounds, each.meaning)) for each in figures]
        bounds, meanings = 0, paint.width
    beside = _ends(names, values, bounds, meanings) <= paint.width
    for figure in figures:
        row = [paint.faint(figure.name.ljust(names)), paint.bold(figure.value.rjust(values))]
        row += [figure.bounds.ljust(bounds)] if bounds else []
        row += [paint.faint(figure.meaning)] if beside else []
        yield _INDENT + _GAP.join(row).rstrip()
        if figure.meaning and not beside:
            yield from _indented(figure.meaning, 2 * len(_INDENT), paint)


def _ends(*columns: int) -> int:
    """Return where the last of some columns ends, those without a width left out."""
    return len(_INDENT) + sum(len(_GAP) + width for width in columns if width) - len(_GAP)


def _joined(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def _charts(charts: Sequence[Chart], paint: Paint) -> Iterator[str]:
    for chart in charts:
        yield from _chart(chart, paint)


def _chart(chart: Chart, paint: Paint) -> Iterator[str]:
    """Yield rows of a label, its numbers, and a bar with a remark behind its end."""
    labels = max(len(bar.label) for bar in chart.bars)
    widths = [
        max(len(column), *(len(bar.values[place]) for bar in chart.bars))
        for place, column in enumerate(chart.columns)
    ]
    begin = 2 * len(_INDENT) + labels + sum(len(_GAP) + width for width in widths) + len(_GAP)
    remarks = max(len(bar.remark) for bar in chart.bars)
    room = paint.width - begin - remarks - 1
    beside = room >= _LEAST_BAR
    room = min(room if beside else paint.width - begin, _MOST_BAR)
    yield paint.faint(_chart_head(chart, 2 * len(_INDENT) + labels, widths))
    for bar in chart.bars:
        mark = f"{paint.glyphs.mark} " if bar.marked else _INDENT
        numbers = (value.rjust(width) for value, width in zip(bar.values, widths, strict=True))
        drawn = paint.toned(paint.bar(bar.share, room, guessed=bar.guessed), Tone.NEUTRAL)
        remark = f" {paint.faint(bar.remark)}" if bar.remark and beside else ""
        line = _GAP.join([_INDENT + mark + bar.label.rjust(labels), *numbers, drawn + remark])
        yield line.rstrip()
        if bar.remark and not beside:
            yield from _indented(bar.remark, begin, paint)


def _chart_head(chart: Chart, begin: int, widths: Sequence[int]) -> str:
    """Return the names of the columns, each above its own as far as the one before it ends in time."""
    head = _INDENT + chart.heading
    end = begin
    for column, width in zip(chart.columns, widths, strict=True):
        end += len(_GAP) + width
        head = f"{head.ljust(end - len(column) - 1)} {column}"
    return head


def _notes(notes: Sequence[Note], paint: Paint) -> Iterator[str]:
    for note in notes:
        yield from _note(note, paint)


def _note(note: Note, paint: Paint) -> Iterator[str]:
    """Yield a note behind its sign, its name in front of it."""
    bad = note.tone is Tone.BAD
    sign = paint.glyphs.warning if bad else paint.glyphs.bullet
    name = f"{escaped(note.name)}:" if note.name else ""
    first, *more = wrapped(f"{name} {escaped(note.text)}", _line(paint) - 2 * len(_INDENT))
    first = first.replace(name, paint.bold(name), 1)
    yield f"{_INDENT}{paint.toned(sign, note.tone) if bad else sign} {first}"
    yield from (2 * _INDENT + line for line in more)


def _indented(text: str, indent: int, paint: Paint) -> Iterator[str]:
    return (" " * indent + paint.faint(line) for line in wrapped(text, _line(paint) - indent))


def _line(paint: Paint) -> int:
    """Return how many columns a line of prose has."""
    return min(paint.width, _BEST_READ)


_KINDS: Final[Mapping[type[Part], Callable[[Sequence[Any], Paint], Iterator[str]]]] = {
    Fact: _facts,
    Figure: _figures,
    Chart: _charts,
    Note: _notes,
}
"""How the parts of each kind are written."""
