"""HTML of a history: one self-contained file with charts, for a screen of any width and for paper."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.history.history_changes import HistoryChange, HistoryDrop, changes, drops
from spec_decode_exporter.history.history_result import HistoryResult
from spec_decode_exporter.history.slot_evaluation import SlotResult
from spec_decode_exporter.reports.history.history_charts import (
    TimeSpan,
    heat_map,
    load_chart,
    positions_chart,
    timeline,
)
from spec_decode_exporter.reports.history.history_report import history_report
from spec_decode_exporter.reports.html_parts import html_parts, html_section, html_text
from spec_decode_exporter.reports.parts import EngineReport

_STYLE: Final = files("spec_decode_exporter.reports.history") / "history.css"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The file loads nothing, and runs no script."""

_CAPTIONS: Final = (
    (
        "Speed-up over time",
        "Shaded: 95 % bounds. Dashed: as fast as without speculation. Vertical: changes; drops in red.",
    ),
    ("Speed-up by day and hour (UTC)", ""),
    ("Speed-up against load", "Each slot with its bounds, by running requests."),
    ("Positions over time", "Share of drafts in which each position was accepted."),
)
"""Title and explanation of each chart."""


def history_html(result: HistoryResult) -> str:
    """Return a history as one HTML file."""
    report = history_report(result)
    every = [engine.slots for engine in result.engines]
    span = TimeSpan(result.begin, result.end)
    bodies = [
        _charts([engine.slots], span, tuple(changes(engine.slots)), tuple(drops(engine.events)))
        for engine in result.engines
    ]
    if len(result.engines) > 1:
        bodies.insert(0, _charts(every, span, (), ()))
    engines = "".join(_engine(*pair) for pair in zip(report.engines, bodies, strict=True))
    title = html_text(report.title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>\n{_STYLE.read_text('utf-8')}</style></head>\n<body><main>"
        f"<h1>{title}</h1>{html_parts((*report.missing, *report.facts))}{engines}"
        f"<footer>{html_parts(report.remarks)}<p>spec-decode-exporter {html_text(__version__)}</p></footer>"
        "</main></body></html>\n"
    )


def _engine(engine: EngineReport, charts: str) -> str:
    place = f'<p class="place">{html_text(engine.place)}</p>' if engine.place else ""
    advice = f'<p class="advice">{html_text(engine.advice)}</p>' if engine.advice else ""
    sections = "".join(map(html_section, engine.sections))
    return (
        f"<article><h2>{html_text(engine.name)}</h2>{place}"
        f'<p class="verdict"><span class="badge {engine.tone}">{html_text(engine.word)}</span> '
        f"{html_text(engine.verdict)}</p>{advice}{html_parts(engine.facts)}{charts}"
        f'<div class="sections">{sections}</div></article>'
    )


def _charts(
    engines: Sequence[Sequence[SlotResult]],
    span: TimeSpan,
    changed: Sequence[HistoryChange],
    dropped: Sequence[HistoryDrop],
) -> str:
    slots = [slot for each in engines for slot in each]
    drawn = (
        timeline(engines, span, changed, dropped),
        heat_map(slots),
        load_chart(slots),
        positions_chart(slots, span) if len(engines) == 1 else "",
    )
    figures = (
        f"<figure><figcaption><b>{title}</b> {text}</figcaption>{chart}</figure>"
        for (title, text), chart in zip(_CAPTIONS, drawn, strict=True)
        if chart
    )
    return "".join(figures)
