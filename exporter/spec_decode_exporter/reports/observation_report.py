"""Report of an observation: the rows of its tables. ``templates/observation.md.jinja`` has its sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from spec_decode_exporter.analysis.figure_table import FIGURES, Unit
from spec_decode_exporter.analysis.verdict import WHOLE_WINDOW, Action
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, edges, quantile
from spec_decode_exporter.monitor.events import event_text
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.reports.text import TextStyle, json_text, name, render
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.views.document import Estimated
from spec_decode_exporter.views.engine_view import EngineView, WindowView
from spec_decode_exporter.views.fleet_view import TargetView
from spec_decode_exporter.views.headline import Headline, countdown, headline, time_saved
from spec_decode_exporter.views.latency_view import quantile_text
from spec_decode_exporter.views.verdict_text import BASES, NO_VERDICT, SOURCES, no_verdict
from spec_decode_exporter.views.words import WORDS

_Document = TypeVar("_Document", EngineView, TargetView)

_DOUBTS: Final = ("few_drafts", "few_requests", "wide_bounds")
"""Findings that explain why there is no verdict or advice: the report has them as missing data."""
_QUIET: Final = {"engine_found", "filtered_page_not_used", "verdict_changed", "recommendation_changed"}
"""Events of every observation, and events about another window: not shown."""
FORMATS: Final[Mapping[Unit, Callable[[float | None], str]]] = {
    Unit.SHARE: numbers.share,
    Unit.FACTOR: numbers.plain,
    Unit.NUMBER: numbers.plain,
    Unit.TOKENS: numbers.plain,
    Unit.SECONDS: numbers.duration,
    Unit.PER_SECOND: numbers.rate,
    Unit.REQUESTS: numbers.plain,
}
"""Formats of figures in all reports."""


def report(view: ObservationView, style: TextStyle, *, sections: bool = True) -> str:
    """Return an observation as text; without ``sections`` engines are a table alone."""
    absent = {target.target for target in view.targets if not target.engines}
    context = {
        "view": view,
        "moment": datetime.fromtimestamp(view.time, UTC),
        "events": [each for each in view.events if each.type not in _QUIET and each.target not in absent],
        "sections": sections,
        "headline": answer(view),
        "saved": time_saved(view.engines, view.time),
    }
    return render("observation.md.jinja", style, **_CONTEXT, **context)


def answer(view: ObservationView) -> Headline:
    """Return whether speculation pays and what to do, with untrusted names as code spans."""
    engines = [_quoted(each, "target", "model_name", "engine") for each in view.engines]
    targets = [_quoted(each, "target", "error", "version") for each in view.targets]
    found = headline(engines, targets, view.time)
    for engine in view.engines if found.remedy else ():
        is_early = engine.recommendation is Action.COLLECT and found.remedy == engine.recommendation_text
        if is_early or found.remedy == countdown(engine, view.time):
            return found._replace(remedy=_again(engine))
    return found


def _quoted(document: _Document, *names: str) -> _Document:
    return document.model_copy(update={each: name(getattr(document, each)) for each in names})


def _again(engine: EngineView) -> str:
    """Advise how to observe an engine: this observation has ended before its countdown."""
    if is_past(engine):
        return "Report a longer time: --since 30d."
    if engine.longest is not None and not engine.longest.counts.drafts:
        return "Observe it while it drafts."
    return "Observe it again, for longer."


def is_past(engine: EngineView) -> bool:
    """Return whether a history is reported: observing it again is no advice."""
    return engine.snapshot.evaluation.known.assumed.settings_place == "history"


def json_report(view: ObservationView) -> str:
    """Return an observation as ASCII JSON with a final newline."""
    return json_text(view.model_dump(mode="json"))


def gist(engine: EngineView) -> str:
    """Return the figure behind the verdict in a few words."""
    window = engine.longest
    if window is None:
        return ""
    speedup = (window.end_to_end_speedup_ratio or window.estimated_speedup_ratio).value
    length = window.acceptance_length_tokens.value
    if speedup is None:
        return "" if length is None else f"length {length:.2f}"
    return f"speed-up {speedup:.2f}"


def failure(target: TargetView) -> str:
    """Return the failure of the newest poll, without the address; empty after a success."""
    return target.error.replace(f" {target.address.partition('/')[0]}: ", " ", 1)


def figures(window: WindowView, section: str, **meanings: str) -> list[tuple[str, ...]]:
    """Return name, value, bounds and meaning of the known figures of a section of the figure table.

    ``meanings`` replace those of the table, by the keys of figures, unless they are empty.
    """
    rows = list[tuple[str, ...]]()
    lines = [(each.report, each) for each in FIGURES if each.report and each.report.section == section]
    for line, figure in sorted(lines, key=lambda each: each[0].place):
        value, span = getattr(window, figure.key), ""
        if isinstance(value, Estimated):
            span = numbers.bounds(value.lower, value.upper, 3 if figure.unit is Unit.SHARE else 2)
            value = value.value
        if value is not None:
            meaning = meanings.get(figure.key) or line.meaning
            rows.append((line.name, FORMATS[figure.unit](value), span, meaning))
    return rows


def percentiles(buckets: Buckets) -> list[str]:
    """Return p50, p95 and p99 of one of the server's own histograms; far edges of a bucket in their place."""
    shares = [each.share for each in LATENCY_QUANTILES]
    return [quantile_text(quantile(each, buckets), edges(each, buckets)) for each in shares]


_CONTEXT: Final[dict[str, Any]] = {
    **{
        each.__name__: each
        for each in (
            *(event_text, failure, figures, format_duration, gist, is_past, no_verdict, percentiles),
        )
    },
    "BASES": BASES,
    "SOURCES": SOURCES,
    "DOUBTS": _DOUBTS,
    "OMITTED": (*_DOUBTS, *NO_VERDICT),
    "WORDS": WORDS,
    "WHOLE_WINDOW": WHOLE_WINDOW,
}
"""Functions and texts of the template."""
