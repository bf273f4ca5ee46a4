"""Table of an engine's figures by window, with the counts that they are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from spec_decode_exporter.analysis.figure_table import FIGURES, Figure, Unit, term
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.views.document import Estimated
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.verdict_text import BASES
from spec_decode_exporter.views.window_view import EndToEndView, WindowView
from spec_decode_exporter.web.page.markup import Markup, joined, scrollable, tag
from spec_decode_exporter.web.page.page_numbers import (
    Format,
    between,
    duration,
    number,
    percent,
    plain,
    rate,
    times,
    whole,
)
from spec_decode_exporter.window.history import Means, Window

_FORMATS: Final[Mapping[Unit, Format]] = {
    Unit.SHARE: percent,
    Unit.FACTOR: times,
    Unit.NUMBER: plain,
    Unit.TOKENS: plain,
    Unit.SECONDS: duration,
    Unit.PER_SECOND: rate,
    Unit.REQUESTS: plain,
}
_GROUPS: Final = (Group.ACCEPTANCE, Group.PAY, Group.LATENCY, Group.RATES, Group.LOAD)
"""Order of the groups of figures; other groups follow."""


def _rank(figure: Figure) -> int:
    return _GROUPS.index(figure.group) if figure.group in _GROUPS else len(_GROUPS)


_FIGURES: Final = sorted((figure for figure in FIGURES if not figure.index), key=_rank)
_NOT_COUNTED: Final = frozenset({*Means._fields, "seconds", "polls", "rejected_tokens"})
"""Sums that no counter counts."""

_TOTALS: Final = (
    ("drafts", "drafts"),
    ("draft_tokens", "tokens drafted"),
    ("accepted_tokens", "accepted"),
    ("generation_tokens", "generated"),
)


def figures(view: EngineView) -> Markup:
    """Return the table, and below it the counts since the exporter first saw the engine."""
    parts = [_totals(view)]
    if view.windows:
        heads = (tag("th", _window_head(each), scope="col", class_="number") for each in view.windows)
        top = tag("thead", tag("tr", tag("th", "Figure", scope="col"), *heads))
        table = tag("table", top, tag("tbody", *_rows(view)), class_="figures-table")
        parts.insert(0, scrollable(table, "Every number"))
    return joined(parts)


def _window_head(window: WindowView) -> Markup:
    covered = f"covers {window.seconds:.0f} s in {window.polls} polls"
    return joined((window.window, tag("small", covered)))


def _rows(view: EngineView) -> Iterator[Markup]:
    for figure in _FIGURES:
        values = [getattr(window, figure.key) for window in view.windows]
        if all(map(_is_unknown, values)):
            continue
        title = tag("th", figure.label, tag("code", figure.metric), scope="row")
        cells = (
            _cell(figure, value, window.its.window)
            for value, window in zip(values, view.windows, strict=True)
        )
        yield tag("tr", title, *cells, data_key=figure.key)
        if figure.key == "estimated_speedup_ratio":
            yield from _request_row(view)


def _request_row(view: EngineView) -> Iterator[Markup]:
    """Yield the row of the speed-up of whole requests, below that of decoding."""
    requests = [window.end_to_end_speedup_ratio for window in view.windows]
    if not any(requests):
        return
    metric = "spec_decode_end_to_end_speedup_ratio"
    title = tag("th", "Speed-up of a request", tag("code", metric), scope="row")
    yield tag("tr", title, *map(_request_cell, requests), data_key="end_to_end_speedup_ratio")


def _request_cell(request: EndToEndView | None) -> Markup:
    if request is None:
        return tag("td", number(None, times), class_="number")
    span = between(request.lower, request.upper, times)
    basis = tag("small", BASES[request.basis], class_="counts")
    return tag("td", number(request.value, times), span, basis, class_="number")


def _cell(figure: Figure, value: Estimated | float | None, window: Window) -> Markup:
    write = _FORMATS[figure.unit]
    if isinstance(value, Estimated):
        parts = [number(value.value, write), between(value.lower, value.upper, write)]
    else:
        parts = [number(value, write)]
    return tag("td", *parts, *_counts(figure, window), class_="number")


def _counts(figure: Figure, window: Window) -> Iterator[Markup]:
    """Yield the counts of a figure of counters, such as 581 of 1 000."""
    above, below = figure.over or ("polls", "polls")
    if above in _NOT_COUNTED:
        return
    parts: Iterable[str] = (number(term(window, above), whole),)
    if below not in _NOT_COUNTED:
        parts = (*parts, f" {figure.counts} ", number(term(window, below), whole))
    yield tag("small", joined(parts), class_="counts")


def _totals(view: EngineView) -> Markup:
    counted = (joined((number(getattr(view.totals, field), whole), f" {word}, ")) for field, word in _TOTALS)
    resets = sum(view.resets.values())
    return tag(
        "p",
        "Since the exporter first saw the engine: ",
        *counted,
        f"over {view.totals.covered_seconds:.0f} s; its counters were reset {resets} times.",
        class_="note",
    )


def _is_unknown(value: Estimated | float | None) -> bool:
    return (value.value if isinstance(value, Estimated) else value) is None
