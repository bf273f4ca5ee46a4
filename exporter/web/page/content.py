"""The page's content: what the script asks for again, once a second."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from exporter.web.page import fleet, targets
from exporter.web.page.data import PageData
from exporter.web.page.events import recent_events
from exporter.web.page.glossary import glossary
from exporter.web.page.markup import Markup, joined, tag
from exporter.web.page.moments import clock_time
from exporter.web.page.query import Query
from exporter.web.page.summary import Standing, chips, sentence, standing

MOST_ROWS: Final = 200
"""Engines that are shown at a time; more are found by the filter."""


@dataclass(slots=True)
class _Rows:
    """The rows of the engines that the filter leaves."""

    standings: Counter[Standing] = field(default_factory=Counter)
    """Of all engines."""
    matching: int = 0
    rows: list[Markup] = field(default_factory=list)
    window: str = ""
    """The longest that an engine has."""


async def content(query: Query, page: PageData) -> Markup:
    """Return the page's content. The event loop gets its turn after each engine."""
    rows = _Rows()
    for engine in page.engines:
        rows.standings[standing(engine.view)] += 1
        rows.window = engine.view.windows[-1].window if engine.view.windows else rows.window
        if query.matches(engine.words):
            rows.matching += 1
            if rows.matching <= MOST_ROWS:
                rows.rows.append(fleet.row(engine, query, page))
        await asyncio.sleep(0)
    return _assembled(rows, query, page)


def _assembled(rows: _Rows, query: Query, page: PageData) -> Markup:
    parts = [_summary(rows, query, page), *targets.problems(page)]
    if page.targets or rows.standings:
        parts.append(_fleet(rows, query))
    parts += [
        _section("Targets", "targets", targets.targets(page)),
        _section("What happened", "events", recent_events(page.events, page.time)),
        glossary(),
    ]
    return joined(parts)


def _summary(rows: _Rows, query: Query, page: PageData) -> Markup:
    told = tag("p", targets.summary(page), ", as of ", tag("time", clock_time(page.time)), class_="asof")
    return tag(
        "section",
        tag("h1", sentence(rows.standings)),
        told,
        chips(rows.standings, query) if rows.standings.total() > 1 else "",
        class_="summary",
        data_key="summary",
    )


def _section(title: str, key: str, inside: Markup) -> Markup:
    heading = tag("h2", title, id=f"{key}-title")
    return tag("section", heading, inside, aria_labelledby=f"{key}-title", class_="other", data_key=key)


def _fleet(rows: _Rows, query: Query) -> Markup:
    table = tag(
        "table",
        fleet.head(rows.window),
        *rows.rows,
        class_="fleet",
        role="table",
        aria_labelledby="fleet-title",
    )
    title = tag("h2", "Engines", id="fleet-title")
    bar = tag("div", title, _filter(rows, query), class_="fleet-bar")
    inside = table if rows.rows else _nothing(rows, query)
    return tag("section", bar, inside, id="fleet", tabindex=-1)


def _filter(rows: _Rows, query: Query) -> Markup:
    total = rows.standings.total()
    shown = f"{total}" if rows.matching == total else f"{rows.matching} of {total}"
    if rows.matching > MOST_ROWS:
        shown += f", the first {MOST_ROWS} shown"
    opened = (tag("input", type="hidden", name="engine", value=each) for each in query.opened)
    return tag(
        "form",
        tag("label", "Filter", for_="filter"),
        tag(
            "input",
            id="filter",
            name="q",
            type="search",
            value=query.text,
            placeholder="a name, verdict=poor, method=eagle3 …",
            autocomplete="off",
            spellcheck="false",
            maxlength=200,
            aria_describedby="found",
            aria_keyshortcuts="/",
        ),
        tag("kbd", "/", aria_hidden="true"),
        tag("output", shown, id="found"),
        *opened,
        role="search",
        action="./",
        class_="filter",
    )


def _nothing(rows: _Rows, query: Query) -> Markup:
    """Say what to do where there is no row to show."""
    if not rows.standings:
        says = "No engine was seen yet. It is there a moment after its server's first answer."
        return tag("div", tag("p", says), class_="empty-state")
    link = tag("a", "Show all engines", href=query.filtered("").href, class_="chip")
    says = joined(("No engine matches ", tag("q", query.text), "."))
    return tag("div", tag("p", says), tag("p", link), class_="empty-state")
