"""Write a report as Markdown, for an issue, a pull request or the summary of a pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from spec_decode_exporter.reports.escape import escaped
from spec_decode_exporter.reports.parts import (
    Chart,
    EngineReport,
    Fact,
    Figure,
    FigureTable,
    Note,
    Part,
    Report,
)
from spec_decode_exporter.reports.terminal import TerminalStyle

_TICKS: Final = re.compile("`+")
_BAR: Final = 20
"""Columns of the longest bar."""


def markdown_report(report: Report, style: TerminalStyle) -> str:
    """Return a report as GitHub's Markdown with a final newline; ``style`` draws the bars.

    Untrusted names are code spans: no markup in them has an effect.
    """
    lines = [f"# {report.title}", ""]
    lines += _parts((*report.facts, *report.missing), style)
    if len(report.engines) > 1:
        rows = (
            (engine.word, engine.gist, _code(engine.place), _code(engine.name)) for engine in report.engines
        )
        lines += _table(("", "", "target", "engine"), rows)
    for engine in report.engines:
        lines += _engine(engine, style)
    for section in report.requests:
        lines += [f"## {section.title}", "", *_parts(section.parts, style)]
    if report.events:
        lines += ["## Events", "", *_parts(report.events, style)]
    lines += _parts(report.remarks, style)
    return "\n".join(lines).rstrip("\n") + "\n"


def _engine(engine: EngineReport, style: TerminalStyle) -> Iterator[str]:
    yield from (f"## {_code(engine.name)}", "")
    advice = f" **{engine.advice}**" if engine.advice else ""
    yield from (f"**{engine.word.capitalize()}.** {engine.verdict}{advice}", "")
    target = [Fact("target", engine.place, untrusted=True)] if engine.place else []
    yield from _parts((*target, *engine.facts), style)
    for section in engine.sections:
        yield from (f"### {section.title}", "")
        yield from _parts(section.parts, style)


def _parts(parts: Sequence[Part], style: TerminalStyle) -> Iterator[str]:
    for kind, group in groupby(parts, type):
        yield from _KINDS[kind](list(group), style)


def _facts(facts: Sequence[Fact], _: TerminalStyle) -> Iterator[str]:
    yield from (f"- {fact.name}: {_code(fact.text) if fact.untrusted else fact.text}" for fact in facts)
    yield ""


def _figures(figures: Sequence[Figure], _: TerminalStyle) -> Iterator[str]:
    bounded = any(figure.bounds for figure in figures)
    columns = ("", "value", *(["95 % bounds"] if bounded else []), "")
    rows = (
        (figure.name, f"**{figure.value}**", *([figure.bounds] if bounded else []), figure.meaning)
        for figure in figures
    )
    return _table(columns, rows)


def _figure_tables(tables: Sequence[FigureTable], _: TerminalStyle) -> Iterator[str]:
    for table in tables:
        yield from _table(table.columns, table.rows, numbers=True)


def _charts(charts: Sequence[Chart], style: TerminalStyle) -> Iterator[str]:
    for chart in charts:
        remarks = any(bar.remark for bar in chart.bars)
        columns = (chart.heading, *chart.columns, "", *([""] if remarks else []))
        rows = (
            (
                f"**{bar.label}**" if bar.marked else bar.label,
                *bar.values,
                f"`{drawn}`" if (drawn := style.bar(bar.share, _BAR, guessed=bar.guessed)) else "",
                *([bar.remark] if remarks else []),
            )
            for bar in chart.bars
        )
        yield from _table(columns, rows)


def _notes(notes: Sequence[Note], _: TerminalStyle) -> Iterator[str]:
    for note in notes:
        name = _code(note.name) if note.untrusted else f"**{note.name}**"
        text = _code(note.text) if note.untrusted else note.text
        yield f"- {name}: {text}" if note.name else f"- {text}"
    yield ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False) -> Iterator[str]:
    """Yield the lines of a table; columns of ``numbers`` are aligned to the right, but for the first."""
    alignment = ["---", *["---:" if numbers else "---"] * (len(columns) - 1)]
    for row in (columns, alignment, *rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def _code(text: str) -> str:
    """Return a text as a code span: no markup, link or mention in it has an effect, even in a table."""
    text = escaped(text).replace("|", "\\|")
    fence = "`" * (max(map(len, _TICKS.findall(text)), default=0) + 1)
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{text}{space}{fence}" if text.strip() else ""


_KINDS: Final[Mapping[type[Part], Callable[[Sequence[Any], TerminalStyle], Iterator[str]]]] = {
    Fact: _facts,
    Figure: _figures,
    FigureTable: _figure_tables,
    Chart: _charts,
    Note: _notes,
}
"""Writer of each kind of part."""
