"""A report as Markdown, for an issue, a pull request or the summary of a pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from spec_decode_exporter.reports.escape import escaped
from spec_decode_exporter.reports.parts import Chart, EngineReport, Fact, Figure, Note, Part, Report
from spec_decode_exporter.reports.terminal import Paint

_TICKS: Final = re.compile("`+")
_BAR: Final = 20
"""Columns of the longest bar."""


def markdown_report(report: Report, paint: Paint) -> str:
    """Return a report as GitHub's Markdown; it ends with a line's end. ``paint`` says what bars are made of.

    What strangers call their models and servers is text there, whatever it looks like.
    """
    lines = [f"# {report.title}", ""]
    lines += _parts(report.unseen, paint)
    if len(report.engines) > 1:
        rows = (
            (engine.word, engine.gist, _code(engine.place), _code(engine.name)) for engine in report.engines
        )
        lines += _table(("", "", "target", "engine"), rows)
    for engine in report.engines:
        lines += _engine(engine, paint)
    for section in report.requests:
        lines += [f"## {section.title}", "", *_parts(section.parts, paint)]
    if report.events:
        lines += ["## What happened", "", *_parts(report.events, paint)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _engine(engine: EngineReport, paint: Paint) -> Iterator[str]:
    yield from (f"## {_code(engine.name)}", "")
    yield from (f"**{engine.word.capitalize()}.** {engine.verdict} **{engine.advice}**", "")
    yield from _parts((Fact("target", engine.place, foreign=True), *engine.facts), paint)
    for section in engine.sections:
        yield from (f"### {section.title}", "")
        yield from _parts(section.parts, paint)


def _parts(parts: Sequence[Part], paint: Paint) -> Iterator[str]:
    for kind, group in groupby(parts, type):
        yield from _KINDS[kind](list(group), paint)


def _facts(facts: Sequence[Fact], _: Paint) -> Iterator[str]:
    yield from (f"- {fact.name}: {_code(fact.text) if fact.foreign else fact.text}" for fact in facts)
    yield ""


def _figures(figures: Sequence[Figure], _: Paint) -> Iterator[str]:
    sure = any(figure.bounds for figure in figures)
    columns = ("", "value", *(["95 % bounds"] if sure else []), "")
    rows = (
        (figure.name, f"**{figure.value}**", *([figure.bounds] if sure else []), figure.meaning)
        for figure in figures
    )
    return _table(columns, rows)


def _charts(charts: Sequence[Chart], paint: Paint) -> Iterator[str]:
    for chart in charts:
        remarks = any(bar.remark for bar in chart.bars)
        columns = (chart.heading, *chart.columns, "", *([""] if remarks else []))
        rows = (
            (
                f"**{bar.label}**" if bar.marked else bar.label,
                *bar.values,
                f"`{drawn}`" if (drawn := paint.bar(bar.share, _BAR, guessed=bar.guessed)) else "",
                *([bar.remark] if remarks else []),
            )
            for bar in chart.bars
        )
        yield from _table(columns, rows)


def _notes(notes: Sequence[Note], _: Paint) -> Iterator[str]:
    for note in notes:
        name = _code(note.name) if note.foreign else f"**{note.name}**"
        text = _code(note.text) if note.foreign else note.text
        yield f"- {name}: {text}" if note.name else f"- {text}"
    yield ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def _code(text: str) -> str:
    """Return a text as code: nothing in it is markup, a link or a mention of anybody, not even in a table."""
    text = escaped(text).replace("|", "\\|")
    fence = "`" * (max(map(len, _TICKS.findall(text)), default=0) + 1)
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{text}{space}{fence}" if text.strip() else ""


_KINDS: Final[Mapping[type[Part], Callable[[Sequence[Any], Paint], Iterator[str]]]] = {
    Fact: _facts,
    Figure: _figures,
    Chart: _charts,
    Note: _notes,
}
"""How the parts of each kind are written."""
