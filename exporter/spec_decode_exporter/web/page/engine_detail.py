"""Details of an engine: verdict, advice, trend, positions, depths; then findings, events, every number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from spec_decode_exporter.findings.finding import Severity
from spec_decode_exporter.views.engine_view import DepthView, EngineView, FindingView
from spec_decode_exporter.views.history import Trace
from spec_decode_exporter.views.window_view import WindowView
from spec_decode_exporter.web.page.charts import bar, line_chart
from spec_decode_exporter.web.page.event_list import engine_events, marks
from spec_decode_exporter.web.page.figure_table import figures
from spec_decode_exporter.web.page.markup import Markup, joined, name, sentences, tag
from spec_decode_exporter.web.page.page_data import PageData, ShownEngine
from spec_decode_exporter.web.page.page_numbers import Format, number, percent, times, whole
from spec_decode_exporter.web.page.request_comparison import request_comparison
from spec_decode_exporter.web.page.setting_card import setting_content
from spec_decode_exporter.web.page.words import Advice, advice, verdict_sign

_MIN_SCALE: Final = 1.5
"""Minimum speed-up at the right end of the bars: the line at 1 stays visible."""


_RECOMMENDED: Final[Mapping[Advice | None, str]] = {Advice.AS_GOOD: "as good", Advice.LIKELY: "likely best"}
_REMARK: Final = {"recommended": "remark recommended"}


def detail(engine: ShownEngine, page: PageData) -> Markup:
    """Return the panel of an open engine."""
    view = engine.view
    first = [_headline(view), *_time_card(engine, page), *_charts(view)]
    reasons = [*_setting(view), *_findings(view.findings)]
    events = _card("Events", engine_events(page.events_of(view.id, view.target), view.id, page.time), "wide")
    return tag("div", *first, *reasons, events, _numbers(view), class_="panel")


def _headline(view: EngineView) -> Markup:
    statement = tag("p", verdict_sign(view.verdict), tag("span", view.verdict_text), class_="statement")
    lines = [statement, tag("p", sentences(view.recommendation_text), class_="advice-text")]
    if view.baseline is not None:
        lines.append(tag("p", "Baseline: ", view.baseline.name, ".", class_="note"))
    return tag("div", *lines, class_=f"headline {view.verdict}")


def _findings(findings: Iterable[FindingView]) -> Iterator[Markup]:
    """Yield the findings, faults first."""
    items = [
        tag(
            "li",
            tag("strong", "Warning: " if each.severity is Severity.WARNING else "Note: "),
            sentences(each.text),
            class_=str(each.severity),
            data_key=str(each.name),
        )
        for each in findings
    ]
    if items:
        yield tag("ul", *items, class_="findings")


def _setting(view: EngineView) -> Iterator[Markup]:
    content = setting_content(view.setting, view.recommendation_text)
    if content is not None:
        yield _card("Setting", content, "wide")


def _time_card(engine: ShownEngine, page: PageData) -> Iterator[Markup]:
    if engine.trace is not None:
        yield _card("Acceptance over time", _time_line(engine.view, engine.trace, page), "wide")


def _charts(view: EngineView) -> Iterator[Markup]:
    if not view.windows:
        return
    last = view.windows[-1]
    if last.position_acceptance_ratio:
        yield _card(f"Acceptance by position, {last.window}", _positions(last))
    if view.depths:
        yield _card(f"Expected speed-up by draft tokens, {last.window}", _depths(view))


def _more_charts(view: EngineView) -> Iterator[Markup]:
    """Yield the charts that explain the figures; they are not needed at the first look."""
    last = view.windows[-1] if view.windows else None
    if last is not None and view.baseline is not None:
        compared = request_comparison(last, view.baseline)
        yield _card(f"Requests with and without speculation, {last.window}", compared)
    if last is not None and last.accepted_length_ratio:
        yield _card(f"Accepted tokens of a draft, {last.window}", _distribution(last))


def _card(title: str, content: str, kind: str = "") -> Markup:
    return tag("section", tag("h3", title), content, class_=f"card {kind}".strip(), data_key=title)


def _time_line(view: EngineView, trace: Trace, page: PageData) -> Markup:
    minutes = trace.seconds / 60
    events = list(marks(page.events_of(view.id, view.target), page.time))
    left = tag(
        "div", *(tag("span", text) for text in ("100 %", "50 %", "0 %")), class_="y", aria_hidden="true"
    )
    ages = (f"{minutes:g} min ago", f"{minutes / 2:g} min ago", "now")
    below = tag("div", *(tag("span", text) for text in ages), class_="x", aria_hidden="true")
    drawn = tag("div", line_chart(trace, events, grid=True), class_="plot")
    return tag("div", left, drawn, below, class_="timeline")


def _table(heads: Iterable[str], rows: Iterable[Markup], kind: str) -> Markup:
    cells = (tag("th", each, scope="col", class_="number" if each == "Tokens" else None) for each in heads)
    top = tag("thead", tag("tr", *cells))
    return tag("table", top, tag("tbody", *rows), class_=f"bars {kind}")


def _positions(window: WindowView) -> Markup:
    rows = []
    columns = zip(
        window.position_acceptance_ratio,
        window.position_conditional_acceptance_ratio,
        window.counts.position_accepted_tokens,
        strict=True,
    )
    for position, (reached, conditional, accepted) in enumerate(columns):
        cells = (
            tag("th", str(position), scope="row"),
            _barred(reached, reached, "fill", percent),
            _barred(conditional, conditional, "fill second", percent),
            tag("td", number(accepted, whole), class_="number"),
        )
        rows.append(tag("tr", *cells))
    heads = ("Position", "Accepted", "Given the last", "Tokens")
    drafts = number(window.counts.drafts, whole)
    return joined((_table(heads, rows, "positions"), tag("p", "Of ", drafts, " drafts.", class_="note")))


def _depths(view: EngineView) -> Markup:
    largest = max(*(each.speedup_ratio for each in view.depths), _MIN_SCALE)
    rows = (_depth(each, largest, view) for each in view.depths)
    note = "The line marks decoding without speculation. Values for other numbers are estimates to verify."
    return joined(
        (_table(("Draft tokens", "Speed-up", "Remark"), rows, "depths"), tag("p", note, class_="note"))
    )


def _depth(depth: DepthView, largest: float, view: EngineView) -> Markup:
    kind = "fill hatched" if depth.extrapolated else "fill"
    relation = advice(view)
    remarks = [
        *(["now"] if depth.tokens == view.configured_tokens else []),
        *([_RECOMMENDED.get(relation, "recommended")] if depth.recommended else []),
        *(["extrapolated"] if depth.extrapolated else []),
    ]
    speedup = depth.speedup_ratio
    return tag(
        "tr",
        tag("th", str(depth.tokens), scope="row"),
        _barred(speedup, speedup / largest, kind, times, 1 / largest),
        tag("td", *(tag("span", each, class_=_REMARK.get(each, "remark")) for each in remarks)),
    )


def _distribution(window: WindowView) -> Markup:
    rows = (
        tag("tr", tag("th", str(length), scope="row"), _barred(share, share, "fill third", percent))
        for length, share in enumerate(window.accepted_length_ratio)
    )
    return _table(("Accepted", "Share of drafts"), rows, "lengths")


def _barred(
    value: float | None, share: float | None, kind: str, write: Format, mark: float | None = None
) -> Markup:
    """Return a cell with a number and its bar."""
    return tag("td", bar(share, kind, mark), number(value, write), class_="barred")


def _numbers(view: EngineView) -> Markup:
    """Return every figure, the charts that explain them, and the labels: closed until a reader opens them."""
    inside = (*_more_charts(view), _card("All figures and their counts", figures(view), "wide numbers"))
    all_of_it = tag("div", *inside, _labels(view), class_="more")
    return tag(
        "details",
        tag("summary", tag("h3", "Every number")),
        all_of_it,
        id=f"numbers-{view.id}",
        class_="every-number wide",
        data_key="numbers",
    )


def _labels(view: EngineView) -> Markup:
    """Return the labels, and links to the API."""
    pairs = (tag("div", tag("dt", name(key)), tag("dd", name(value))) for key, value in view.labels.items())
    links = tag(
        "p",
        tag("a", "This engine in the API", href=f"./api/v1/engines/{view.id}"),
        " · ",
        tag("a", "Link to this engine alone", href=f"./?engine={view.id}#e-{view.id}"),
        class_="note",
    )
    return _card("Labels", joined((tag("dl", *pairs, class_="labels"), links)), "wide")
