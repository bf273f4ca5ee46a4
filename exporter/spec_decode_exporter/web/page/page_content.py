"""Content of the page, which the script requests each second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from spec_decode_exporter.core.isolation import NO_ITEM
from spec_decode_exporter.core.number_formats import utc_clock
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.views.engine_view import id_of
from spec_decode_exporter.web.page import fleet_table, target_list
from spec_decode_exporter.web.page.event_list import recent_events
from spec_decode_exporter.web.page.experiment_panel import experiments
from spec_decode_exporter.web.page.fleet_summary import Standing, chips, headline, is_alarming, standing
from spec_decode_exporter.web.page.glossary import glossary
from spec_decode_exporter.web.page.markup import Markup, joined, name, tag
from spec_decode_exporter.web.page.page_data import OmittedEngine, PageData, ShownEngine
from spec_decode_exporter.web.page.page_query import PageQuery
from spec_decode_exporter.web.page.request_panel import requests
from spec_decode_exporter.web.page.words import NOT_SHOWN

MAX_ROWS: Final = 200
"""Maximum number of engines on the page; the filter finds the others."""
_MAX_ID: Final = 64
"""Maximum characters shown of an unknown id."""


class _Ranked(NamedTuple):
    """Shown engine and its rank: alarming engines have rank False and come first."""

    rank: bool
    engine: ShownEngine


@dataclass(slots=True)
class _Rows:
    """Engines that match the filter."""

    query: PageQuery
    standings: Counter[Standing] = field(default_factory=Counter)
    """Verdicts and states of all engines."""
    dropped: int = 0
    """Engines with a present drop."""
    models: set[str] = field(default_factory=set)
    """Names of the models, of all engines."""
    targets: set[str] = field(default_factory=set)
    """Names of the targets, of all engines."""
    unknown: set[str] = field(default_factory=set)
    """Requested ids without an engine."""
    matching: int = 0
    shown: list[_Ranked] = field(default_factory=list)
    """Engines with a row: alarming ones first, then in their order."""
    omitted: list[OmittedEngine] = field(default_factory=list)
    """Engines that could not be shown."""
    window: str = ""
    """Name of the longest window."""

    def __post_init__(self) -> None:
        self.unknown = set(self.query.opened)

    def add(self, engine: ShownEngine) -> bool:
        """Count an engine, and keep it if it is shown; return whether it matches the filter."""
        view = engine.view
        # Calls that may fail come first, so that a failing engine is not counted.
        counted_as, matches, alarming = standing(view), self.query.matches(engine.words), is_alarming(view)
        self.standings[counted_as] += 1
        self.models.add(view.model_name)
        self.targets.add(view.target)
        self.dropped += any(view.drops.dropped.values())
        self.window = view.windows[-1].window if view.windows else self.window
        self.unknown.discard(view.id)
        if matches:
            self.matching += 1
            self.shown.append(_Ranked(not alarming, engine))
            if len(self.shown) > 2 * MAX_ROWS:  # bounds the memory of a large fleet
                self.cut()
        return matches

    @property
    def by_target(self) -> bool:
        """True if rows start with the target: several serve one model."""
        return len(self.models) == 1 and len(self.targets) > 1

    def omit(self, engine: OmittedEngine) -> None:
        """Keep an engine that could not be shown, regardless of the filter; at most ``MAX_ROWS``."""
        self.unknown.discard(id_of(engine.labels))
        if len(self.omitted) < MAX_ROWS:
            self.omitted.append(engine)

    def cut(self) -> None:
        """Drop the rows beyond ``MAX_ROWS`` that are not open."""
        self.shown.sort(key=lambda ranked: ranked.rank)
        beyond = (each for each in self.shown[MAX_ROWS:] if each.engine.view.id in self.query.opened)
        self.shown = [*self.shown[:MAX_ROWS], *beyond]


async def content(query: PageQuery, page: PageData) -> Markup:
    """Return the content of the page; yield to the event loop after each engine."""
    rows = _Rows(query)
    for engine in page.engines:
        if isinstance(engine, OmittedEngine):
            rows.omit(engine)
        elif page.errors.attempt("page", engine.view.labels, partial(rows.add, engine)) is None:
            rows.omit(OmittedEngine(engine.view.labels))
        await yield_to_event_loop()
    rows.cut()
    drawn = []
    draw = partial(fleet_table.row, query=query, page=page, by_target=rows.by_target)
    for _, shown in rows.shown:
        row = page.errors.attempt("page", shown.view.labels, partial(draw, shown))
        drawn.append(row or fleet_table.omitted_row(OmittedEngine(shown.view.labels)))
        await yield_to_event_loop()
    of_requests = await page.errors.attempt_async("page", partial(requests, page.requests, page.errors))
    drawn = [*map(fleet_table.omitted_row, rows.omitted), *drawn]
    return _assembled(rows, drawn, _not_shown() if of_requests is None else of_requests, page)


def _not_shown() -> Markup:
    return tag("p", NOT_SHOWN, class_="error")


def _assembled(rows: _Rows, drawn: Sequence[Markup], of_requests: Markup, page: PageData) -> Markup:
    def safe(make: Callable[[], Markup]) -> Markup:
        made = page.errors.attempt("page", NO_ITEM, make)
        return _not_shown() if made is None else made

    summary, problems = safe(lambda: _summary(rows, page)), safe(lambda: joined(target_list.problems(page)))
    parts = [summary, *_exporter_problem(page), problems, *_not_found(rows)]
    if page.targets or rows.standings or drawn:
        parts.append(_fleet(rows, drawn))
    if page.experiments:
        parts.append(
            _section("Experiments", "experiments", safe(lambda: experiments(page.experiments, page.errors)))
        )
    parts += [_section("Requests", "requests", of_requests)] if of_requests else []
    parts += [
        _section("Targets", "targets", safe(lambda: target_list.targets(page))),
        _section("Events", "events", safe(lambda: _other_events(rows, page))),
        glossary(),
    ]
    return joined(parts)


def _other_events(rows: _Rows, page: PageData) -> Markup:
    """List the events of the fleet, but for those that the panels of open engines show."""
    opened = [each.engine.view for each in rows.shown if each.engine.view.id in rows.query.opened]
    elsewhere = {event.id for view in opened for event in page.events_of(view.id, view.target)}
    if not elsewhere:
        return recent_events(page.events, page.time)
    others = [event for event in page.events if event.id not in elsewhere]
    listed = recent_events(others, page.time, empty="No other events.")
    return joined((listed, tag("p", "Events of an open engine are in its panel.", class_="note")))


def _exporter_problem(page: PageData) -> Iterator[Markup]:
    """Yield a notice of a problem of the exporter itself."""
    if page.problem:
        yield tag(
            "div", tag("strong", "Exporter"), tag("p", page.problem), class_="notice", data_key="exporter"
        )


def _not_found(rows: _Rows) -> Iterator[Markup]:
    """Yield a notice for each requested engine that does not exist, as of an old link."""
    for engine in (each for each in rows.query.opened if each in rows.unknown):
        text = tag("p", "There is no engine ", tag("q", name(engine[:_MAX_ID])), ": it may be evicted.")
        link = tag("a", "Close", href=rows.query.toggled(engine).href, class_="chip")
        yield tag("div", text, link, class_="notice unknown", role="status", data_key=f"no-{engine}")


def _summary(rows: _Rows, page: PageData) -> Markup:
    targets = tag(
        "p", target_list.summary(page), ", as of ", tag("time", utc_clock(page.time)), class_="asof"
    )
    is_known = rows.standings or not rows.omitted
    return tag(
        "section",
        tag("h1", headline(rows.standings, rows.dropped) if is_known else NOT_SHOWN),
        targets,
        chips(rows.standings, rows.query) if rows.standings.total() > 1 else "",
        class_="summary",
        data_key="summary",
    )


def _section(title: str, key: str, inside: Markup) -> Markup:
    heading = tag("h2", title, id=f"{key}-title")
    return tag("section", heading, inside, aria_labelledby=f"{key}-title", class_="other", data_key=key)


def _fleet(rows: _Rows, drawn: Sequence[Markup]) -> Markup:
    table = tag(
        "table",
        fleet_table.head(rows.window),
        *drawn,
        class_="fleet",
        role="table",
        aria_labelledby="fleet-title",
    )
    title = tag("h2", "Engines", id="fleet-title")
    bar = tag("div", title, _filter(rows) if rows.standings else "", class_="fleet-bar")
    inside = table if drawn else _nothing(rows)
    return tag("section", bar, inside, id="fleet", tabindex=-1)


def _filter(rows: _Rows) -> Markup:
    query = rows.query
    total = rows.standings.total()
    shown = f"{total}" if rows.matching == total else f"{rows.matching} of {total}"
    if rows.matching > MAX_ROWS:
        shown += f", the first {MAX_ROWS} shown"
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


def _nothing(rows: _Rows) -> Markup:
    """Return the text in place of an empty table."""
    if not rows.standings:
        text = "An engine appears a moment after its server's first answer."
        return tag("div", tag("p", text), class_="empty-state")
    link = tag("a", "Show all engines", href=rows.query.filtered("").href, class_="chip")
    text = joined(("No engine matches ", tag("q", rows.query.text), "."))
    return tag("div", tag("p", text), tag("p", link), class_="empty-state")
