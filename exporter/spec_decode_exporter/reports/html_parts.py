"""Write the parts of a report as HTML. All text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from spec_decode_exporter.reports.escape import escaped
from spec_decode_exporter.reports.parts import Chart, Fact, Figure, FigureTable, Note, Part, ReportSection


def html_text(text: str) -> str:
    """Return a text for HTML: markup and control characters in it have no effect."""
    return escape(escaped(text))


def html_section(section: ReportSection, level: int = 3) -> str:
    """Return a section with its title."""
    return f"<section><h{level}>{html_text(section.title)}</h{level}>{html_parts(section.parts)}</section>"


def html_parts(parts: Sequence[Part]) -> str:
    """Return the parts; neighbours of one kind share a list or table."""
    return "".join(_KINDS[kind](list(group)) for kind, group in groupby(parts, type))


def _facts(facts: Sequence[Fact]) -> str:
    rows = (f"<dt>{html_text(fact.name)}</dt><dd>{html_text(fact.text)}</dd>" for fact in facts)
    return f"<dl>{''.join(rows)}</dl>"


def _figures(figures: Sequence[Figure]) -> str:
    rows = [(each.name, each.value, each.bounds, each.meaning) for each in figures]
    return _table(("", "value", "95 % bounds", ""), rows)


def _figure_tables(tables: Sequence[FigureTable]) -> str:
    return "".join(_table(table.columns, table.rows) for table in tables)


def _charts(charts: Sequence[Chart]) -> str:
    return "".join(map(_chart, charts))


def _chart(chart: Chart) -> str:
    heads = "".join(f"<th>{html_text(each)}</th>" for each in (chart.heading, *chart.columns, "", ""))
    rows = []
    for bar in chart.bars:
        values = "".join(f"<td>{html_text(value)}</td>" for value in bar.values)
        kind = "guessed" if bar.guessed else "known"
        drawn = '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        drawn += f'<rect class="{kind}" width="{100 * bar.share:.1f}" height="8"/></svg>'
        marked = ' class="marked"' if bar.marked else ""
        rows.append(
            f"<tr{marked}><th>{html_text(bar.label)}</th>{values}"
            f'<td class="drawn">{drawn}</td><td class="remark">{html_text(bar.remark)}</td></tr>'
        )
    return _framed(f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>")


def _notes(notes: Sequence[Note]) -> str:
    return f"<ul>{''.join(map(_note, notes))}</ul>"


def _note(note: Note) -> str:
    name = f"<b>{html_text(note.name)}:</b> " if note.name else ""
    return f'<li class="{note.tone}">{name}{html_text(note.text)}</li>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{html_text(column)}</th>" for column in columns)
    return _framed(f"<thead><tr>{heads}</tr></thead><tbody>{''.join(_rows(rows))}</tbody>")


def _rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for name, *values in rows:
        cells = "".join(f"<td>{html_text(value)}</td>" for value in values)
        yield f"<tr><th>{html_text(name)}</th>{cells}</tr>"


def _framed(table: str) -> str:
    """Return a table that scrolls on its own on a narrow screen."""
    return f'<div class="wide"><table>{table}</table></div>'


_KINDS: Final[Mapping[type[Part], Callable[[Sequence[Any]], str]]] = {
    Fact: _facts,
    Figure: _figures,
    FigureTable: _figure_tables,
    Chart: _charts,
    Note: _notes,
}
"""Writer of each kind of part."""
