"""Table of the targets, and notices of those that are down or have no engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.scrape.errors import NO_ENGINE_REMEDY
from spec_decode_exporter.views.fleet_view import TargetView
from spec_decode_exporter.web.page.markup import Markup, joined, name, scrollable, tag
from spec_decode_exporter.web.page.page_data import PageData
from spec_decode_exporter.web.page.page_numbers import NOTHING, duration, moment, number, whole
from spec_decode_exporter.web.page.words import NOT_SHOWN

# Style class and text of a target's state.
_STATES: Final = {True: ("up", "Up"), False: ("down", "Down"), None: ("unknown", "Not polled yet")}
_NO_ENGINE: Final = ("no-engine", "No engine")
_NO_ENGINE_TEXT: Final = f"its page has no engine: {NO_ENGINE_REMEDY}"
_HEADS: Final = (
    ("Target", ""),
    ("Address", "address"),
    ("State", ""),
    ("Server", ""),
    ("Engines", "number"),
    ("Polled every", "number"),
    ("Failed polls", "number"),
)
_MAX_LISTED: Final = 3


def targets(page: PageData) -> Markup:
    """Return the targets as a table, or instructions without targets."""
    if not page.targets:
        return _none()
    heads = (
        tag("th", title, scope="col", role="columnheader", class_=kind or None) for title, kind in _HEADS
    )
    ordered = sorted(page.targets, key=lambda each: not _is_bad(each))
    rows = (
        page.errors.attempt("page", {"target": each.target}, partial(_row, each, page.time))
        or _omitted_row(each)
        for each in ordered
    )
    head = tag("thead", tag("tr", *heads, role="row"), role="rowgroup")
    body = tag("tbody", *rows, role="rowgroup")
    table = tag("table", head, body, class_="targets", role="table", aria_labelledby="targets-title")
    return scrollable(table, "Table of targets")


def summary(page: PageData) -> str:
    """Return the number of targets that are up and have an engine."""
    if not page.targets:
        return "No target"
    up = sum(each.up is True and not _has_no_engine(each) for each in page.targets)
    return f"{up} of {plural(len(page.targets), 'target')} up"


def problems(page: PageData) -> Iterator[Markup]:
    """Yield a notice of the targets that are down or have no engine."""
    bad = [each for each in page.targets if _is_bad(each)]
    if bad:
        listed = joined(_problem(each) for each in bad[:_MAX_LISTED])
        more = f"… and {len(bad) - _MAX_LISTED} more, below" if len(bad) > _MAX_LISTED else ""
        yield tag(
            "div",
            tag("strong", _counted(bad)),
            listed,
            more,
            class_="notice",
            role="group",
            data_key="problems",
        )


def _is_bad(target: TargetView) -> bool:
    """Return whether a target gives no figures: it is down, or its page has no engine."""
    return target.up is False or _has_no_engine(target)


def _has_no_engine(target: TargetView) -> bool:
    return target.engines_on_page == 0


def _counted(bad: Sequence[TargetView]) -> str:
    down = sum(each.up is False for each in bad)
    other = len(bad) - down
    parts = [f"{plural(down, 'target')} {'is' if down == 1 else 'are'} down"] if down else []
    parts += [f"{plural(other, 'target')} {'has' if other == 1 else 'have'} no engine"] if other else []
    return f"{', '.join(parts)}."


def _error(target: TargetView) -> str:
    """Return the reason for which a target gives no figures; empty if it does."""
    return target.error or (_NO_ENGINE_TEXT if _has_no_engine(target) else "")


def _problem(target: TargetView) -> Markup:
    return tag("p", name(target.target), " ", tag("span", _error(target), class_="error"))


def _row(target: TargetView, now: float) -> Markup:
    kind, word = _NO_ENGINE if _has_no_engine(target) else _STATES[target.up]
    state = [tag("span", word, class_=f"state {kind}")]
    if _is_bad(target):
        state.append(tag("span", _error(target), class_="error"))
    if target.up is False and target.last_success_timestamp_seconds is not None:
        state.append(tag("small", "last answered ", moment(target.last_success_timestamp_seconds, now)))
    server = " ".join(filter(None, (target.engine_kind, target.version)))
    failures = sum(target.poll_failures.values())
    values = (
        target.address,
        joined(state),
        name(server) if server else NOTHING,
        str(len(target.engines)),
        number(target.poll_interval_seconds, duration),
        joined((number(failures, whole), tag("small", f" of {whole(target.polls)}"))),
    )
    cells = (_cell(*head, value) for head, value in zip(_HEADS[1:], values, strict=True))
    title = tag("th", name(target.target), scope="row", role="rowheader")
    return tag("tr", title, *cells, role="row", data_key=target.target)


def _omitted_row(target: TargetView) -> Markup:
    """Return the row of a target that could not be shown."""
    title = tag("th", name(target.target), scope="row", role="rowheader")
    text = tag("td", NOT_SHOWN, role="cell", colspan=len(_HEADS) - 1, class_="error")
    return tag("tr", title, text, role="row", data_key=target.target)


def _cell(title: str, kind: str, value: str) -> Markup:
    """Return a cell; narrow screens show its label instead of the table head."""
    return tag("td", tag("div", value), class_=kind or None, role="cell", data_label=title)


def _none() -> Markup:
    return tag(
        "div",
        tag("p", tag("strong", "No target is known yet."), " Tell the exporter which servers to watch:"),
        tag("pre", tag("code", "spec-decode-exporter --target http://localhost:8000/metrics")),
        tag(
            "p",
            "or name them in the configuration, under ",
            tag("code", "targets"),
            ", or discover them by files, DNS or Kubernetes. To try the page with simulated servers: ",
            tag("code", "spec-decode-exporter run --simulate drop"),
            ".",
        ),
        class_="empty-state",
    )
