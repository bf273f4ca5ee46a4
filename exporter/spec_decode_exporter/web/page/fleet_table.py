"""Table of the fleet: a row for each engine, with a link that opens or closes its details."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.views.engine_view import EngineView, id_of
from spec_decode_exporter.views.window_view import WindowView
from spec_decode_exporter.web.page.charts import line_chart
from spec_decode_exporter.web.page.engine_detail import detail
from spec_decode_exporter.web.page.event_list import marks
from spec_decode_exporter.web.page.markup import Markup, joined, name, tag
from spec_decode_exporter.web.page.page_data import OmittedEngine, PageData, ShownEngine
from spec_decode_exporter.web.page.page_numbers import (
    NOTHING,
    between,
    duration,
    number,
    percent,
    plain,
    times,
)
from spec_decode_exporter.web.page.page_query import PageQuery
from spec_decode_exporter.web.page.words import NOT_SHOWN, VERDICTS, Advice, advice, state_word, verdict_chip

_HEADS: Final = (
    ("Engine", False, ""),
    ("State", False, ""),
    ("Verdict", False, "With the speed-up of a request, over the time that the verdict covers"),
    ("Acceptance", False, "Accepted tokens over draft tokens, in each window and over the last minutes"),
    ("Length", True, "Mean tokens of a draft, bonus token included, with 95 % bounds"),
    ("K", False, "Number of draft tokens, and the recommended number"),
    ("Tokens/step", True, "Mean tokens of a decode step, with a draft or without"),
    ("Time/token", True, "Mean time per output token"),
)
"""Title, whether it shows the longest window, and tooltip."""


def head(window: str) -> Markup:
    """Return the head of the table; ``window`` is the name of the longest window."""
    cells = (
        tag(
            "th",
            title,
            *([" ", tag("small", window)] if is_long else []),
            scope="col",
            role="columnheader",
            title=meaning or None,
        )
        for title, is_long, meaning in _HEADS
    )
    return tag("thead", tag("tr", *cells, role="row"), role="rowgroup")


def row(engine: ShownEngine, query: PageQuery, page: PageData, *, by_target: bool = False) -> Markup:
    """Return the row of an engine and, if it is open, its details.

    With ``by_target`` it starts with the target: in a fleet of one model the targets tell engines apart.
    """
    view = engine.view
    is_open = view.id in query.opened
    rows = [tag("tr", *_cells(engine, query, page, by_target=by_target), class_="engine", role="row")]
    if is_open:
        inside = tag("td", detail(engine, page), role="cell", colspan=len(_HEADS))
        rows.append(tag("tr", inside, class_="detail", role="row"))
    return tag(
        "tbody",
        *rows,
        id=f"e-{view.id}",
        data_key=view.id,
        data_name=engine.name,
        data_verdict=str(view.verdict),
        data_verdict_word=VERDICTS[view.verdict].text,
        class_="open" if is_open else None,
        role="rowgroup",
    )


def omitted_row(engine: OmittedEngine) -> Markup:
    """Return the row of an engine that could not be shown."""
    labels = engine.labels
    context = (name(labels["target"]), " · ", f"engine {labels['engine']}")
    title = joined((name(labels["model_name"]), tag("span", *context, class_="context")))
    cells = (
        tag("th", title, scope="row", role="rowheader", class_="name"),
        tag("td", NOT_SHOWN, role="cell", colspan=len(_HEADS) - 1, class_="error"),
    )
    row_ = tag("tr", *cells, class_="engine", role="row")
    key = id_of(labels)
    return tag("tbody", row_, id=f"e-{key}", data_key=key, role="rowgroup")


def _cells(engine: ShownEngine, query: PageQuery, page: PageData, *, by_target: bool) -> Iterator[Markup]:
    view = engine.view
    last = view.windows[-1] if view.windows else None
    yield tag("th", _title(view, query, by_target=by_target), scope="row", role="rowheader", class_="name")
    yield _cell("State", state_word(view.state))
    yield _cell("Verdict", _verdict(view))
    yield _cell("Acceptance", _acceptance(engine, page), "acceptance")
    yield _cell("Length", _length(view, last), "number")
    yield _cell("K", _tokens(view), "number")
    yield _cell("Tokens/step", number(last.effective_tokens_per_step if last else None, plain), "number")
    yield _cell(
        "Time/token", number(last.time_per_output_token_seconds if last else None, duration), "number"
    )


def _cell(label: str, content: str, class_: str | None = None) -> Markup:
    """Return a cell; narrow screens show its label instead of the table head."""
    return tag("td", content, role="cell", class_=class_, data_label=label)


def _title(view: EngineView, query: PageQuery, *, by_target: bool) -> Markup:
    is_open = view.id in query.opened
    first, second = (view.target, view.model_name) if by_target else (view.model_name, view.target)
    link = tag(
        "a",
        name(first),
        href=query.toggled(view.id).href + ("" if is_open else f"#e-{view.id}"),
        class_="opener",
        aria_expanded="true" if is_open else "false",
    )
    context = [name(second), f"engine {view.engine}", *([name(view.method)] if view.method else [])]
    return joined((link, tag("span", *_separated(context), class_="context")))


def _separated(parts: list[str]) -> Iterator[str]:
    for place, part in enumerate(parts):
        if place:
            yield " · "
        yield part


def _verdict(view: EngineView) -> Markup:
    """Return the verdict with its figure, or with a present drop."""
    if any(view.drops.dropped.values()):
        return joined(
            (verdict_chip(view.verdict, view.verdict_text), tag("span", "dropped now", class_="figure alarm"))
        )
    if view.state is not State.ACTIVE and view.verdict is Verdict.INSUFFICIENT:
        return NOTHING
    evaluated = view.evaluated
    request = None if evaluated is None else evaluated.end_to_end_speedup_ratio
    speedup = request or (None if evaluated is None else evaluated.estimated_speedup_ratio)
    if speedup is None or speedup.value is None or view.verdict is Verdict.INSUFFICIENT:
        return verdict_chip(view.verdict, view.verdict_text)
    scope = " as fast, decode only" if request is None else " as fast"
    figure = tag("span", number(speedup.value, times), scope, class_="figure")
    return joined((verdict_chip(view.verdict, view.verdict_text), figure))


def _acceptance(engine: ShownEngine, page: PageData) -> Markup:
    view = engine.view
    figures = (
        tag("span", tag("small", each.window), " ", number(each.draft_acceptance_ratio.value, percent))
        for each in view.windows
    )
    if engine.trace is None or view.state is State.DISABLED:
        return NOTHING
    drawn = line_chart(engine.trace, marks(page.events_of(view.id, view.target), page.time))
    return joined((tag("div", *figures, class_="figures"), drawn))


def _length(view: EngineView, last: WindowView | None) -> Markup:
    if last is None or last.acceptance_length_tokens.value is None:
        return number(view.engine_reported_acceptance_length_tokens, plain)
    length = last.acceptance_length_tokens
    return joined((number(length.value, plain), between(length.lower, length.upper, plain)))


def _tokens(view: EngineView) -> Markup:
    """Return K, and the recommended number below it."""
    if view.configured_tokens is None:
        return NOTHING
    now, best, relation = _count(view.configured_tokens), view.recommended_tokens, advice(view)
    if best is None or relation is None:
        return now
    is_change = relation is Advice.TRY
    words = ("try ", _count(best)) if is_change else (_count(best), f" {relation}")
    kind = "advice change" if is_change else "advice"
    return joined((now, tag("small", *words, class_=kind, title=view.recommendation_text)))


def _count(tokens: int) -> Markup:
    return tag("data", str(tokens), value=tokens)
